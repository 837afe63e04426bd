package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// digest is a SHA-256 over fields that cannot run into each other: each is preceded by its length.
type digest struct{ h hash.Hash }

// newDigest starts a digest of a kind and version of its own, so that equal fields of two kinds differ.
func newDigest(kind string) digest {
	d := digest{sha256.New()}
	d.text(kind)
	return d
}

func (d digest) bytes(b []byte) {
	d.number(int64(len(b)))
	_, _ = d.h.Write(b) // a hash never fails
}

func (d digest) text(s string) { d.bytes([]byte(s)) }

func (d digest) texts(s []string) {
	d.number(int64(len(s)))
	for _, v := range s {
		d.text(v)
	}
}

func (d digest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = d.h.Write(b[:])
}

func (d digest) numbers(ns ...int64) {
	for _, n := range ns {
		d.number(n)
	}
}

func (d digest) sum() (s [sha256.Size]byte) {
	d.h.Sum(s[:0])
	return s
}
