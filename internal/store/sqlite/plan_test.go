package sqlite

import (
	"regexp"
	"strings"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Every statement whose cost must not grow with the backlog, with the plan that it must have. A plan that scans a
// table, or sorts, is a bug that only a full queue would show.
func TestHotStatementsWalkTheirIndexes(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testOptions(t))
	byID, err := compile(queue.Selector{IDs: []string{"a", "b"}, DiedAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	byCause, err := compile(queue.Selector{Reasons: queue.Reasons(), HTTPStatuses: []string{"5xx"}, Fingerprints: []string{"f"}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		query string
		want  []string
	}{
		"known ids":        {sqlKnown[8], []string{"SEARCH j USING INDEX jobs_id (id=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		"due":              {sqlDue, []string{"SEARCH j USING INDEX jobs_due (available_at<?)", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"}},
		"overdue":          {sqlOverdue, []string{"SEARCH j USING INDEX jobs_deadline (deadline<?)"}},
		"next due":         {sqlNextDue, []string{"SCAN jobs USING COVERING INDEX jobs_due"}},
		"lease":            {sqlLease[8], []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"by id":            {sqlByID[8], []string{"SEARCH j USING INDEX jobs_id (id=?)"}},
		"succeed":          {sqlSucceed[8], []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"drop payloads":    {sqlDropPayloads[8], []string{"SEARCH payloads USING INTEGER PRIMARY KEY (rowid=?)"}},
		"drop details":     {sqlDropDetails[8], []string{"SEARCH details USING INTEGER PRIMARY KEY (rowid=?)"}},
		"histories":        {sqlHistories[8], []string{"SEARCH details USING INTEGER PRIMARY KEY (rowid=?)"}},
		"retry":            {sqlRetry, []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"die":              {sqlDie, []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"lost":             {sqlLost, []string{"SEARCH j USING INDEX jobs_leased (lease_until<?)"}},
		"oldest dead":      {sqlOldestDead, []string{"SCAN j USING INDEX jobs_dead"}},
		"drop":             {sqlDrop[8], []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"forget":           {sqlForget, []string{"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY #", "SEARCH jobs USING COVERING INDEX jobs_expiring (expires_at>? AND expires_at<?)"}},
		"job":              {sqlJob, []string{"SEARCH j USING INDEX jobs_id (id=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN", "SEARCH p USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		"page of the dead": {deadPage(byCause), []string{"SEARCH j USING INDEX jobs_dead (dead_seq>?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		"purge by cause":   {purgePage(byCause), []string{"SEARCH j USING INDEX jobs_dead (dead_seq>? AND dead_seq<?)"}},
		"purge by id":      {purgePage(byID), []string{"SEARCH j USING INDEX jobs_id (id=?)", "USE TEMP B-TREE FOR ORDER BY"}},
		"match":            {matching(byCause), []string{"SCAN j USING COVERING INDEX jobs_dead"}},
		"sample":           {sqlSample, []string{"SEARCH j USING INDEX jobs_dead (dead_seq=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		"redrive":          {sqlRedrive, []string{"SEARCH redrives USING INDEX sqlite_autoindex_redrives_1 (uid=?)"}},
		"running":          {sqlRunning, []string{"SCAN redrives USING INDEX redrives_running"}},
		"executed":         {sqlExecuted, []string{"SEARCH redrives USING INDEX redrives_once (name=? AND spec_digest=?)"}},
		"forgettable":      {sqlForgettable, []string{"SEARCH redrives USING INDEX redrives_kept (finished_at<?)"}},
		"candidates":       {sqlCandidates, []string{"SEARCH i USING PRIMARY KEY (rid=? AND pos>? AND pos<?)", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"}},
		"tried":            {sqlTried, []string{"CO-ROUTINE i", "SEARCH redrive_items USING INDEX redrive_items_tried (rid=?)", "SCAN i", "USE TEMP B-TREE FOR GROUP BY"}},
		"release":          {sqlRelease[10], []string{"SCAN 10-ROW VALUES CLAUSE", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"}},
		"set items":        {sqlSetItems[8], []string{"SEARCH redrive_items USING PRIMARY KEY (rid=? AND pos=?)"}},
		"outcomes":         {sqlAddOutcomes, []string{"SEARCH redrives USING INTEGER PRIMARY KEY (rowid=?)"}},
		"items in order":   {sqlItems, []string{"SEARCH i USING PRIMARY KEY (rid=?)", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"}},
		"stats": {sqlStats, []string{"SEARCH meta USING INTEGER PRIMARY KEY (rowid=?)",
			"SCALAR SUBQUERY #", "SCAN jobs USING COVERING INDEX jobs_due",
			"SCALAR SUBQUERY #", "SCAN jobs USING COVERING INDEX jobs_dead",
			"SCALAR SUBQUERY #", "CO-ROUTINE (subquery-3)", "SEARCH jobs USING COVERING INDEX jobs_due (available_at<?)", "SCAN (subquery-3)"}},
		"groups of the dead": {deadGroups(byCause), []string{"SCAN j USING COVERING INDEX jobs_dead", "USE TEMP B-TREE FOR GROUP BY", "USE TEMP B-TREE FOR ORDER BY"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := explain(t, s, tt.query)
			if strings.Join(got, "; ") != strings.Join(tt.want, "; ") {
				t.Errorf("plan of %s:\n  got  %q\n  want %q", tt.query, got, tt.want)
			}
		})
	}
}

var numbers = regexp.MustCompile(`SUBQUERY \d+`)

func explain(t *testing.T, s *Store, query string) []string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = 7
	}
	rows, err := s.reads.QueryContext(t.Context(), "explain query plan "+query, args...)
	if err != nil {
		t.Fatalf("explaining %s: %v", query, err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, numbers.ReplaceAllString(detail, "SUBQUERY #"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
