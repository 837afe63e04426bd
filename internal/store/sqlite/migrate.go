package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the file's schema up to this program's, and refuses a file that a newer program has written.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	if have > known {
		return fmt.Errorf("the file has schema version %d, this program knows %d: run the newer retryqueue", have, known)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the schema: %w", err)
	}
	return nil
}

// identity is what the file says of itself.
type identity struct {
	storeID string
	queue   string
	epoch   int64
	clock   int64
}

// readIdentity answers sql.ErrNoRows for a file that was never opened.
func readIdentity(ctx context.Context, db *sql.DB) (id identity, err error) {
	var n int
	row := db.QueryRowContext(ctx, `select count(*) from sqlite_schema where type = 'table' and name = 'meta'`)
	if err := row.Scan(&n); err != nil {
		return id, fmt.Errorf("opening the database: %w", err)
	}
	if n == 0 {
		return id, sql.ErrNoRows
	}
	err = db.QueryRowContext(ctx, `select store_id, queue, epoch, clock_hw from meta where one = 1`).
		Scan(&id.storeID, &id.queue, &id.epoch, &id.clock)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return id, fmt.Errorf("reading whose file this is: %w", err)
	}
	return id, err
}
