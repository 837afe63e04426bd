package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/retryqueue/retryqueue/internal/queue"
	"github.com/retryqueue/retryqueue/internal/queue/storetest"
)

// smallDisk is a directory on a disk of its own, of size bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Fatalf("a disk of its own needs the right to mount; run the tests as root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return dir
}

// stuff fills what is left of the disk.
func stuff(t *testing.T, dir string) (remove func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "stuff"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := 1 << 16; chunk > 0; { // the last byte, too
		if _, err = f.Write(make([]byte, chunk)); err != nil {
			chunk /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() { _ = os.Remove(f.Name()) }
}

func TestAQueueThatHasFilledItsDiskDrainsAndAcceptsAgain(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Path = filepath.Join(smallDisk(t, 16<<20), "queue.db")
	o.Reserve = 2 << 20
	s := mustOpen(t, o)
	clock := o.Clock.(*storetest.ManualClock)
	taken, refused := 0, 0
	for refused < 5 { // each refusal is followed by a look whether there is room
		switch err := accept(s, newJobs(fmt.Sprint("a", taken), 1, 50_000)...); {
		case err == nil:
			taken++
		case errors.Is(err, queue.ErrStorageFull):
			refused++
			clock.Advance(retryEvery)
		default:
			t.Fatal(err)
		}
	}
	if taken < 50 {
		t.Fatalf("took %d jobs only", taken)
	}
	for left := taken; left > 0; {
		got, err := claim(s, 10)
		if err != nil || len(got.Leases) == 0 {
			t.Fatalf("with %d of %d jobs left: claimed %d, %v", left, taken, len(got.Leases), err)
		}
		mustSettle(t, s, succeeded, got.Leases...)
		left -= len(got.Leases)
	}
	var err error
	for range 5 {
		if err = accept(s, newJobs("again", 1, 50_000)...); err == nil {
			break
		}
		clock.Advance(retryEvery)
	}
	if err != nil {
		t.Errorf("accepting once all is delivered: %v", err)
	}
	if info, err := os.Stat(reserveFile(o.Path)); err != nil || info.Size() < o.Reserve/4 {
		t.Errorf("accepting without a reserve: %v", err)
	}
}

func TestAStoreOpensOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 16<<20)
	o := testOptions(t)
	o.Path, o.Reserve = filepath.Join(dir, "queue.db"), 2<<20
	s := mustOpen(t, o)
	mustAccept(t, s, newJobs("a", 10, 1000)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	remove := stuff(t, dir)
	s = mustOpen(t, o)
	mustSettle(t, s, succeeded, mustClaim(t, s, 10).Leases...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	defer stuff(t, dir)()
	if _, err := Open(t.Context(), o); !errors.Is(err, queue.ErrStorageFull) {
		t.Errorf("opening without room for anything: %v", err)
	}
	remove()
}
