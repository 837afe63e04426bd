package main

import (
	"bytes"
	"encoding/json"
	"log"
	"testing"
)

func TestWhatLibrariesPrintIsDebug(t *testing.T) {
	flags, output := log.Flags(), log.Writer()
	defer func() {
		log.SetFlags(flags)
		log.SetOutput(output)
	}()
	for level, want := range map[string]string{"info": "", "debug": "Unsolicited response"} {
		var out bytes.Buffer
		to, err := newLogger(&out, "json", level)
		if err != nil {
			t.Fatal(err)
		}
		redirectLibraries(to)
		log.Print("Unsolicited response")
		var record struct{ Level, Msg string }
		if err := json.Unmarshal(out.Bytes(), &record); err != nil && want != "" {
			t.Errorf("at level %s: %q is no record: %v", level, out.String(), err)
		}
		if record.Msg != want || want == "" && out.Len() > 0 {
			t.Errorf("at level %s: printed %q", level, out.String())
		}
	}
}
