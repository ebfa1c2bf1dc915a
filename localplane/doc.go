// SPDX-License-Identifier: Apache-2.0

// Package localplane starts a real Kubernetes control plane on this machine, with simulated nodes, real ones or both, and Everynode on it.
//
//	plane, err := localplane.Start(ctx, localplane.Options{Dir: dir, Nodes: 3})
//	if err != nil { … }
//	defer plane.Stop(context.Background())
//	client, err := kubernetes.NewForConfig(plane.RESTConfig())
//
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, the simulated nodes and Everynode's manager are each a
// process of its own, so that each can be measured and killed alone. They are the program bin/localplane, started again
// under other names, and bin/everynode-manager; this package itself imports none of them and compiles quickly.
// kube-apiserver, kube-controller-manager and kube-scheduler can be those of another version (Programs.Kubernetes).
//
// A plane lives in a directory. It belongs to the process that started it, and ends with that process, however that ends;
// its state stays in the directory and the next start goes on from there. Attach reaches a plane that another process runs.
//
// Everything listens on loopback only, with TLS from authorities of the plane's own.
package localplane
