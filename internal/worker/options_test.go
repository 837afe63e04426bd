package worker

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retryqueue/retryqueue/internal/workerapi"
)

func goodOptions() Options {
	return Options{
		Manifest: "q.yaml", DataDir: "d", Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0",
		ProducerTokens: "/nonexistent", SigningKeys: "/nonexistent", Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
}

func TestOptionsNameTheFlagAtFault(t *testing.T) {
	t.Parallel()
	files := workerapi.ServerFiles{Cert: "c", Key: "k", ClientCA: "a"}
	for name, tc := range map[string]struct {
		change func(*Options)
		flag   string // "": good
	}{
		"good":                        {func(*Options) {}, ""},
		"no manifest":                 {func(o *Options) { o.Manifest = "" }, "--file"},
		"no data directory":           {func(o *Options) { o.DataDir = "" }, "--data-dir"},
		"address without port":        {func(o *Options) { o.Listen = "localhost" }, "--listen"},
		"empty metrics address":       {func(o *Options) { o.MetricsListen = "" }, "--metrics-listen"},
		"plain admin, everywhere":     {func(o *Options) { o.AdminListen = ":8443" }, "--admin-listen must be a loopback"},
		"plain admin on 0.0.0.0":      {func(o *Options) { o.AdminListen = "0.0.0.0:8443" }, "--admin-listen must be a loopback"},
		"plain admin on [::]":         {func(o *Options) { o.AdminListen = "[::]:8443" }, "--admin-listen must be a loopback"},
		"plain admin, other host":     {func(o *Options) { o.AdminListen = "10.0.0.1:8443" }, "--admin-listen must be a loopback"},
		"token, not on loopback":      {func(o *Options) { o.AdminListen, o.AdminTokenFile = ":8443", "t" }, "--admin-listen must be a loopback"},
		"plain admin on [::1]":        {func(o *Options) { o.AdminListen = "[::1]:8443" }, ""},
		"plain admin on localhost":    {func(o *Options) { o.AdminListen = "localhost:8443" }, ""},
		"mutual TLS everywhere":       {func(o *Options) { o.AdminListen, o.AdminTLS = ":8443", files }, ""},
		"certificate without the key": {func(o *Options) { o.AdminTLS.Cert = "c" }, "--admin-tls-key"},
		"no client authority":         {func(o *Options) { o.AdminTLS = workerapi.ServerFiles{Cert: "c", Key: "k"} }, "--admin-client-ca"},
		"certificates and a token":    {func(o *Options) { o.AdminTLS, o.AdminTokenFile = files, "t" }, "--admin-token-file"},
	} {
		o := goodOptions()
		tc.change(&o)
		err := o.validate()
		if tc.flag == "" && err != nil || tc.flag != "" && (err == nil || !strings.Contains(err.Error(), tc.flag)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
