package queue

import (
	"maps"
	"mime"
	"slices"
	"strings"
)

// EventContent is what a CloudEvent says of itself outside its payload.
type EventContent struct {
	Mode string // binary or structured
	// Attributes by name, with or without the prefix "ce-" of HTTP headers, in any case.
	Attributes map[string]string
}

// volatileAttributes change when a producer sends the same event again.
var volatileAttributes = map[string]bool{"time": true, "traceparent": true, "tracestate": true}

// ContentSHA identifies what a job is about, so that a second job with the same id can be told from a
// conflict: the media type (its case and the order of its parameters do not matter), the payload, and for a
// CloudEvent its mode and attributes but time and trace context. event is nil for a plain job.
func ContentSHA(contentType string, payload []byte, event *EventContent) [32]byte {
	d := newDigest("content/1")
	d.text(canonicalMediaType(contentType))
	if event != nil {
		d.text(event.Mode)
		attributes := eventAttributes(event.Attributes)
		d.number(int64(len(attributes)))
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			d.text(name)
			d.text(attributes[name])
		}
	} else {
		d.text("")
		d.number(0)
	}
	d.bytes(payload)
	return d.sum()
}

// canonicalMediaType is the media type in lower case with its parameters sorted; what cannot be parsed is
// compared as text.
func canonicalMediaType(s string) string {
	media, params, err := mime.ParseMediaType(s)
	if err != nil {
		return strings.ToLower(strings.TrimSpace(s))
	}
	if charset, ok := params["charset"]; ok {
		params["charset"] = strings.ToLower(charset)
	}
	if f := mime.FormatMediaType(media, params); f != "" {
		return f
	}
	return strings.ToLower(strings.TrimSpace(s))
}

func eventAttributes(all map[string]string) map[string]string {
	kept := make(map[string]string, len(all))
	for name, value := range all {
		name = strings.TrimPrefix(strings.ToLower(name), "ce-")
		if !volatileAttributes[name] {
			kept[name] = value
		}
	}
	return kept
}
