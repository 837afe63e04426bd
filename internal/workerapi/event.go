package workerapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	strictjson "sigs.k8s.io/json"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// eventMode is how a request carries a CloudEvent, if it does.
type eventMode string

const (
	notAnEvent      eventMode = ""
	binaryEvent     eventMode = "binary"
	structuredEvent eventMode = "structured"
)

const eventMediaPrefix = "application/cloudevents"

var attributeHeader = regexp.MustCompile(`^Ce-[A-Za-z0-9]{1,64}$`)

// detectEvent tells the mode from the headers and refuses what cannot be an event's.
func detectEvent(h http.Header, contentType string) (eventMode, error) {
	attributes := false
	for name, values := range h {
		if !strings.HasPrefix(name, "Ce-") {
			continue
		}
		attributes = true
		if !attributeHeader.MatchString(name) {
			return notAnEvent, invalid(name, "a CloudEvents attribute is named by letters and digits only; rename or remove the header")
		}
		if len(values) != 1 {
			return notAnEvent, invalid(strings.ToLower(name), "the header must be sent once, not %d times", len(values))
		}
	}
	media, _, _ := mime.ParseMediaType(contentType) // checked before
	if !strings.HasPrefix(media, eventMediaPrefix) {
		if attributes {
			return binaryEvent, nil
		}
		return notAnEvent, nil
	}
	switch {
	case media == eventMediaPrefix+"-batch" || strings.HasPrefix(media, eventMediaPrefix+"-batch+"):
		return notAnEvent, refuse(KindUnsupportedMedia, "Content-Type", "send one event a request; batches of CloudEvents are not taken")
	case media != eventMediaPrefix+"+json":
		return notAnEvent, refuse(KindUnsupportedMedia, "Content-Type", "structured events must be application/cloudevents+json")
	case attributes:
		return notAnEvent, invalid("Content-Type", "an event is either structured (application/cloudevents+json) or binary (ce-* headers), not both")
	case h.Get("Content-Encoding") != "":
		return notAnEvent, refuse(KindUnsupportedMedia, "Content-Encoding", "a structured event must come without Content-Encoding")
	}
	return structuredEvent, nil
}

// identifyEvent checks the event in r, whose body is job.Payload, and sets the job's id and content hash. The
// payload and headers stay as they came: so the event goes on to the target.
func identifyEvent(r *http.Request, mode eventMode, job *queue.NewJob) error {
	if mode == binaryEvent && r.Header.Get("Ce-Specversion") == "" {
		return invalid("ce-specversion", "a request with ce-* headers must be a whole CloudEvent; add ce-specversion: 1.0")
	}
	if mode == structuredEvent {
		if err := checkEvent(job.Payload); err != nil {
			return err
		}
	}
	message := cehttp.NewMessage(r.Header, io.NopCloser(bytes.NewReader(job.Payload)))
	e, err := binding.ToEvent(r.Context(), message)
	if err != nil {
		return invalid(eventField(mode), "must be a CloudEvent of specversion 1.0 or 0.3: %s", firstLine(err))
	}
	if err := e.Validate(); err != nil {
		return invalid(eventField(mode), "must be a complete CloudEvent (id, source, type, specversion): %s", firstLine(err))
	}
	job.ID = EventID(e.Source(), e.ID())
	job.ContentSHA = queue.ContentSHA(job.ContentType, job.Payload, &queue.EventContent{Mode: string(mode), Attributes: eventAttributes(r.Header)})
	return nil
}

// checkEvent refuses a structured event that two readers could read as two events: the target must see the id by
// which we deduplicate, and see the data that was meant.
func checkEvent(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("body", "the event must be UTF-8; send other bytes as data_base64")
	}
	var members map[string]json.RawMessage
	strict, err := strictjson.UnmarshalStrict(body, &members)
	if err != nil {
		return nil // not an object: the library says so
	}
	if len(strict) > 0 {
		return invalid("body", "the event must not have a member twice: %s", firstLine(strict[0]))
	}
	given := func(name string) bool { return members[name] != nil && string(members[name]) != "null" }
	if given("data") && given("data_base64") {
		return invalid("data_base64", "an event must have data or data_base64, not both")
	}
	for _, name := range []string{"id", "source"} {
		if raw := members[name]; len(raw) == 0 || raw[0] != '"' {
			continue // missing: the library says so
		}
		text, err := exactString(members[name])
		if err != nil {
			return invalid(name, "%s", err.Error())
		}
		if strings.ContainsFunc(text, unicode.IsControl) {
			return invalid(name, "must not hold control characters")
		}
	}
	return nil
}

// EventID is the job id of the CloudEvent with this source and id: "ce-" and 43 characters.
func EventID(source, id string) string {
	sum := sha256.Sum256([]byte(source + "\x00" + id))
	return "ce-" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func eventAttributes(h http.Header) map[string]string {
	attributes := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "Ce-") {
			attributes[strings.ToLower(name)] = values[0]
		}
	}
	return attributes
}

func eventField(mode eventMode) string {
	if mode == binaryEvent {
		return "ce-*"
	}
	return "body"
}

// firstLine is what a library said, short enough to pass on.
func firstLine(err error) string {
	if v, ok := errors.AsType[event.ValidationError](err); ok {
		for _, name := range slices.Sorted(maps.Keys(v)) {
			return name + ": " + v[name].Error()
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return line[:min(len(line), 200)]
}
