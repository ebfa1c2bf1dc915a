// SPDX-License-Identifier: Apache-2.0

// Package localplane starts a real Kubernetes control plane on this machine, with simulated nodes, real ones or both,
// and Everynode on it.
//
//	plane, err := localplane.Start(ctx, localplane.Options{Dir: dir, Nodes: 3})
//	if err != nil { … }
//	defer plane.Stop(context.Background())
//	client, err := kubernetes.NewForConfig(plane.RESTConfig())
//
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, the simulated nodes and Everynode's manager are
// separate processes, so that each can be measured and killed. They run the programs bin/localplane, with an argument
// for the component, and bin/everynode-manager; this package imports none of them and compiles quickly. kube-apiserver,
// kube-controller-manager and kube-scheduler can have another version (Programs.Kubernetes).
//
// A plane has a directory. It ends with the process that started it, even if that process is killed; its state stays in
// the directory, and the next start continues with it. Attach connects to a plane of another process.
//
// All components listen only on loopback addresses, with TLS and the plane's own certificate authorities.
package localplane
