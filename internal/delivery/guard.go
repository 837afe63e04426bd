package delivery

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

// A target is dialled by address only after the name was resolved, so that no name, redirect of DNS or odd
// spelling of an address gets round the check. What is refused is what no service of a cluster has: the cloud's
// metadata and host services, link-local, multicast and unspecified addresses, and loopback unless allowed.
// Private addresses are the normal case in a cluster and allowed.

// never are addresses and networks that no job is sent to.
var never = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where clouds keep instance credentials"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the host service of a cloud"},
	{netip.MustParsePrefix("100.100.100.200/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("192.0.0.192/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("fd20:ce::/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// forbidden says what is wrong with dialling addr; empty when nothing is. IPv4 addresses that are written
// into IPv6 ones (mapped, NAT64, 6to4, …) are held to the same rules.
func forbidden(addr netip.Addr, allowLoopback bool) string {
	addr = addr.WithZone("").Unmap()
	for _, n := range never {
		if n.prefix.Contains(addr) {
			return n.what
		}
	}
	if addr.IsLoopback() && !allowLoopback {
		return "this machine"
	}
	for _, inner := range embedded(addr) {
		if what := forbidden(inner, allowLoopback); what != "" {
			return fmt.Sprintf("%s (%s)", what, inner)
		}
	}
	return ""
}

var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// embedded lists the IPv4 addresses that an IPv6 address may lead to: RFC 4291 §2.5.5, RFC 6052 §2.2, RFC
// 8215, RFC 3056 §2, RFC 4380 §4.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	v4 := func(i ...int) netip.Addr { return netip.AddrFrom4([4]byte{b[i[0]], b[i[1]], b[i[2]], b[i[3]]}) }
	low := v4(12, 13, 14, 15)
	switch {
	case addr.IsLoopback():
		return nil
	case compatible.Contains(addr), nat64.Contains(addr):
		return []netip.Addr{low}
	case nat64Local.Contains(addr): // the operator's prefix may be of any length from 48 to 96
		return []netip.Addr{low, v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12)}
	case sixToFour.Contains(addr):
		return []netip.Addr{v4(2, 3, 4, 5)}
	case teredo.Contains(addr):
		return []netip.Addr{netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	}
	return nil
}

// forbiddenError refuses to dial an address.
type forbiddenError struct{ addr, what string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%s is %s, which no job is sent to; change delivery.http.url or what its name leads to", e.addr, e.what)
}

// control is the net.Dialer's last look at a resolved address.
func (d *HTTP) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the resolved address: %w", err)
	}
	if what := forbidden(target.Addr(), d.config.Load().AllowLoopback); what != "" {
		return &forbiddenError{addr: target.Addr().String(), what: what}
	}
	return nil
}
