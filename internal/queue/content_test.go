package queue

import "testing"

func TestContentSHA(t *testing.T) {
	t.Parallel()
	type content struct {
		media, payload string
		event          *EventContent
	}
	event := func(mode string, kv ...string) *EventContent {
		e := &EventContent{Mode: mode, Attributes: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			e.Attributes[kv[i]] = kv[i+1]
		}
		return e
	}
	tests := map[string]struct {
		a, b content
		same bool
	}{
		"equal content":                          {content{"text/plain", "x", nil}, content{"text/plain", "x", nil}, true},
		"another payload":                        {content{"text/plain", "x", nil}, content{"text/plain", "y", nil}, false},
		"another media type":                     {content{"text/plain", "x", nil}, content{"text/html", "x", nil}, false},
		"case of the media type":                 {content{"Text/Plain", "x", nil}, content{"text/plain", "x", nil}, true},
		"order and spacing of parameters":        {content{"a/b; x=1;y=2", "x", nil}, content{"a/b;y=2; x=1", "x", nil}, true},
		"case of the charset":                    {content{"a/b;charset=UTF-8", "x", nil}, content{"a/b; charset=utf-8", "x", nil}, true},
		"value of a parameter":                   {content{"a/b;x=a", "x", nil}, content{"a/b;x=A", "x", nil}, false},
		"no media type and some":                 {content{"", "x", nil}, content{"a/b", "x", nil}, false},
		"what is no media type is text":          {content{"a/b;;=", "x", nil}, content{" A/B;;=", "x", nil}, true},
		"fields that run into each other":        {content{"a/b", "cd", nil}, content{"a/bc", "d", nil}, false},
		"an event and none":                      {content{"a/b", "x", event("binary")}, content{"a/b", "x", nil}, false},
		"another mode":                           {content{"a/b", "x", event("binary")}, content{"a/b", "x", event("structured")}, false},
		"another attribute":                      {content{"a/b", "x", event("binary", "type", "a")}, content{"a/b", "x", event("binary", "type", "b")}, false},
		"case and prefix of an attribute's name": {content{"a/b", "x", event("binary", "Ce-Type", "a")}, content{"a/b", "x", event("binary", "type", "a")}, true},
		"time and trace of an event": {
			content{"a/b", "x", event("binary", "ce-time", "1", "ce-traceparent", "1", "type", "a")},
			content{"a/b", "x", event("binary", "ce-time", "2", "type", "a")}, true,
		},
		"attributes that run into each other": {
			content{"a/b", "x", event("binary", "ab", "c")}, content{"a/b", "x", event("binary", "a", "bc")}, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sha := func(c content) [32]byte { return ContentSHA(c.media, []byte(c.payload), c.event) }
			if same := sha(tt.a) == sha(tt.b); same != tt.same {
				t.Errorf("the same content: %v, want %v", same, tt.same)
			}
		})
	}
}

// Stored digests outlive versions of the program: this one must never change.
func TestContentSHAIsStable(t *testing.T) {
	t.Parallel()
	got := ContentSHA("Application/JSON; charset=UTF-8", []byte(`{"a":1}`), &EventContent{Mode: "binary", Attributes: map[string]string{"ce-id": "1"}})
	if want := "6a7dbfd382e9e016880b695e34b47a4939e39deaa6335d14dc2f6a37574d6c9a"; hexOf(got[:]) != want {
		t.Errorf("ContentSHA = %s, want %s", hexOf(got[:]), want)
	}
}

func FuzzContentSHA(f *testing.F) {
	f.Add("text/plain; charset=utf-8", "x")
	f.Add("a/b; q=\"x\\\"y\"", "")
	f.Fuzz(func(t *testing.T, media, payload string) {
		canonical := canonicalMediaType(media)
		if again := canonicalMediaType(canonical); again != canonical {
			t.Errorf("%q becomes %q, which becomes %q", media, canonical, again)
		}
		if ContentSHA(media, []byte(payload), nil) != ContentSHA(canonical, []byte(payload), nil) {
			t.Errorf("%q and its canonical form differ", media)
		}
		if ContentSHA(media, []byte(payload), nil) == ContentSHA(media, []byte(payload+"x"), nil) {
			t.Error("a longer payload is the same")
		}
	})
}
