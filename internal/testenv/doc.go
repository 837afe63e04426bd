// Package testenv starts a real Kubernetes API server for tests: etcd and kube-apiserver with RBAC and the
// repository's CRDs, and on demand its admission policies and roles. No controller of Kubernetes runs, so
// a Deployment makes no pods; tests play those parts with Cluster.As.
//
// A package starts one API server for all its tests:
//
//	var cluster *testenv.Cluster
//
//	func TestMain(m *testing.M) {
//		os.Exit(testenv.Run(m, &cluster, testenv.WithAdmission(), testenv.WithRBAC()))
//	}
//
//	func TestSomething(t *testing.T) {
//		ns := cluster.Namespace(t)
//		alice := cluster.As(t, "alice@example.com")
//		…
//	}
//
// The binaries come from the directory in KUBEBUILDER_ASSETS. Without it a test fails: it never skips.
package testenv
