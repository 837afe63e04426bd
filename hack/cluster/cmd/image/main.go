// Command image packs static binaries into a container image archive (docker-archive), without a container
// engine. Equal input gives an equal archive.
//
//	image -tag NAME:TAG -o FILE.tar [-user UID] BINARY...
//
// Each binary lands in / under its own name, less a leading "rq-"; the first is the entrypoint.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	tag := flag.String("tag", "", "image reference")
	out := flag.String("o", "", "archive to write")
	user := flag.String("user", "", "numeric user that the image runs as")
	flag.Parse()
	if *tag == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := pack(*tag, *out, *user, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func pack(tag, out, user string, binaries []string) error {
	layer, err := layerOf(binaries)
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config":  map[string]any{"Entrypoint": []string{inImage(binaries[0])}, "User": user, "WorkingDir": "/"},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
		"history": []map[string]any{{"created": "1970-01-01T00:00:00Z", "created_by": "hack/cluster/cmd/image"}},
	})
	if err != nil {
		return fmt.Errorf("encoding the image's configuration: %w", err)
	}
	configName, layerName := digest(config)+".json", digest(layer)+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{tag}, "Layers": []string{layerName}}})
	if err != nil {
		return fmt.Errorf("encoding the manifest: %w", err)
	}
	var archive archive
	archive.start()
	archive.file(configName, 0o644, config)
	archive.dir(filepath.Dir(layerName), 0o755)
	archive.file(layerName, 0o644, layer)
	archive.file("manifest.json", 0o644, manifest)
	b, err := archive.bytes()
	if err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return os.WriteFile(out, b, 0o644)
}

func layerOf(binaries []string) ([]byte, error) {
	var a archive
	a.start()
	a.dir("tmp", 0o1777)
	a.dir("etc", 0o755)
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n"))
	for _, name := range binaries {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a binary: %w", err)
		}
		a.file(strings.TrimPrefix(inImage(name), "/"), 0o755, b)
	}
	return a.bytes()
}

func inImage(binary string) string { return "/" + strings.TrimPrefix(filepath.Base(binary), "rq-") }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// archive is a tar in memory that keeps its first error.
type archive struct {
	buf bytes.Buffer
	tw  *tar.Writer
	err error
}

func (a *archive) start() { a.tw = tar.NewWriter(&a.buf) }

func (a *archive) dir(name string, mode int64) {
	a.put(tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode}, nil)
}

func (a *archive) file(name string, mode int64, b []byte) {
	a.put(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(b))}, b)
}

func (a *archive) put(h tar.Header, b []byte) {
	h.ModTime, h.Format = time.Unix(0, 0), tar.FormatUSTAR
	if a.err == nil {
		a.err = a.tw.WriteHeader(&h)
	}
	if a.err == nil {
		_, a.err = a.tw.Write(b)
	}
}

func (a *archive) bytes() ([]byte, error) {
	if a.err == nil {
		a.err = a.tw.Close()
	}
	return a.buf.Bytes(), a.err
}
