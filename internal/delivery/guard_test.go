package delivery

import (
	"net/netip"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestForbidden(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"169.254.169.254", "169.254.0.1", "168.63.129.16", "100.100.100.200", "192.0.0.192", "0.0.0.0", "0.1.2.3",
		"224.0.0.1", "239.255.255.255", "255.255.255.255",
		"::", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254",
		"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", // mapped
		"::169.254.169.254",                              // compatible
		"64:ff9b::169.254.169.254", "64:ff9b::a83f:8110", // NAT64
		"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", // NAT64 of an operator, /96 and /48
		"2002:a9fe:a9fe::1",                    // 6to4
		"2001:0:4136:e378:8000:63bf:5601:5601", // Teredo of 169.254.169.254
	} {
		if forbidden(netip.MustParseAddr(addr), true) == "" {
			t.Errorf("%s may be dialled, must not", addr)
		}
	}
	for _, addr := range []string{
		"10.0.0.1", "10.96.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "240.0.0.1", "8.8.8.8", "168.63.129.17",
		"fd00::1", "fc00::1", "2001:db8::1", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:10.0.0.1", "2002:0808:0808::1",
	} {
		if what := forbidden(netip.MustParseAddr(addr), false); what != "" {
			t.Errorf("%s may not be dialled (%s), must be", addr, what)
		}
	}
	for _, addr := range []string{"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"} {
		if forbidden(netip.MustParseAddr(addr), false) == "" {
			t.Errorf("%s may be dialled without AllowLoopback", addr)
		}
		if what := forbidden(netip.MustParseAddr(addr), true); what != "" {
			t.Errorf("%s may not be dialled with AllowLoopback: %s", addr, what)
		}
	}
}

// Whatever the spelling, what counts is the address that is dialled.
func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://169.254.169.254/latest/meta-data", "http://[::ffff:169.254.169.254]/", "http://[fe80::1%25lo]/",
		"http://0.0.0.0:1/", "http://[::]:1/", "https://168.63.129.16/",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			got := deliver(t, deliverer(t, Config{URL: url}), leaseOf("x"))
			wantFailure(t, got, queue.OutcomeRetryable, KindAddressForbidden)
		})
	}
}

func TestLoopbackIsOnlyDialledWhenAllowed(t *testing.T) {
	t.Parallel()
	s := server(t, nil)
	d := deliverer(t, Config{URL: s.URL})
	if err := d.Configure(Config{URL: s.URL, AttemptTimeout: 30_000}); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, deliver(t, d, leaseOf("x")), queue.OutcomeRetryable, KindAddressForbidden)
}
