// Command pki writes the keys, certificates and kubeconfigs of a single-node cluster.
//
//	pki -dir DIR -server URL -node NAME -ips IP,IP,…
package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"flag"
	"log"
	"net"
	"strings"
)

func main() {
	dir := flag.String("dir", "", "directory to write to")
	server := flag.String("server", "", "URL of the API server")
	node := flag.String("node", "", "name of the node")
	ips := flag.String("ips", "", "addresses that the API server and the kubelet are reached at")
	flag.Parse()
	if err := run(*dir, *server, *node, strings.Split(*ips, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(dir, server, node string, addresses []string) error {
	a, err := newAuthority(dir, server)
	if err != nil {
		return err
	}
	var ips []net.IP
	for _, s := range addresses {
		ips = append(ips, net.ParseIP(s))
	}
	serverAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	a.issue("apiserver", a.cluster, &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: serverAuth, IPAddresses: ips,
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}})
	a.issue("kubelet", a.cluster, &x509.Certificate{Subject: pkix.Name{CommonName: node}, ExtKeyUsage: serverAuth, IPAddresses: ips, DNSNames: []string{node}})
	a.client("front-proxy-client", a.frontProxy, "front-proxy-client")
	a.client("kubelet-client", a.cluster, "kube-apiserver-kubelet-client", "system:masters")
	a.user("admin", "admin", "system:masters")
	a.user("kcm", "system:kube-controller-manager")
	a.user("scheduler", "system:kube-scheduler")
	a.user("proxy", "system:kube-proxy")
	a.user("node", "system:node:"+node, "system:nodes")
	a.serviceAccountKey("sa")
	return a.err
}
