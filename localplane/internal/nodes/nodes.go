// SPDX-License-Identifier: Apache-2.0

// Package nodes creates, disconnects, reconnects and removes the simulated nodes of a plane, through its API server,
// and counts all nodes.
//
// Simulated nodes are named node-0001, node-0002, …; new ones get the next numbers. Real nodes, which have a kubelet,
// have RealLabel; other packages manage them.
package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/localplane/simkubelet"
)

// zones is the number of zones.
const zones = 3

// Max is the maximum number of nodes of a plane, which is the number of addresses.
const Max = 1<<17 - 2

// atOnce is the number of nodes that are created concurrently.
const atOnce = 64

var numbered = regexp.MustCompile(`^node-([0-9]{4,})$`)

// State is the state of a node.
type State string

// A cut node becomes NotReady after a while; it is counted only as cut.
const (
	Ready    State = "Ready"
	NotReady State = "NotReady"
	Cut      State = "cut"
)

// RealLabel is on every real node.
const RealLabel = "localplane.everynode.dev/real"

// Real reports whether a node is a real node.
func Real(node *v1.Node) bool { return node.Labels[RealLabel] == "true" }

// Name returns the name of the n-th node, counted from one.
func Name(n int) string { return fmt.Sprintf("node-%04d", n) }

// New returns the n-th node as it registers itself, with the version of its kubelet.
func New(n int, version string) *v1.Node {
	name := Name(n)
	capacity := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("8"),
		v1.ResourceMemory:           resource.MustParse("32Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		v1.ResourcePods:             resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				simkubelet.ConnectedLabel:  "true",
				v1.LabelHostname:           name,
				v1.LabelOSStable:           "linux",
				v1.LabelArchStable:         "amd64",
				v1.LabelInstanceTypeStable: "simulated",
				v1.LabelTopologyRegion:     "local",
				v1.LabelTopologyZone:       fmt.Sprintf("zone-%d", (n-1)%zones+1),
			},
		},
		Status: v1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: address(n)},
				{Type: v1.NodeHostName, Address: name},
				// The API server uses this address for logs and exec: there is no kubelet, and no external address is
				// tried.
				{Type: v1.NodeInternalDNS, Address: "localhost"},
			},
			NodeInfo: v1.NodeSystemInfo{
				KubeletVersion:          version,
				ContainerRuntimeVersion: "containerd://2.0.0-simulated",
				KernelVersion:           "simulated",
				OSImage:                 "simulated",
				OperatingSystem:         "linux",
				Architecture:            "amd64",
			},
		},
	}
}

// address is in the network reserved for benchmarks (RFC 2544), which is not routed.
func address(n int) string {
	base := netip.MustParseAddr("198.18.0.0").As4()
	base[1] += byte(n >> 16)
	base[2] = byte(n >> 8)
	base[3] = byte(n)
	return netip.AddrFrom4(base).String()
}

// Add creates n nodes and returns their names.
func Add(ctx context.Context, client kubernetes.Interface, n int, version string) ([]string, error) {
	last, err := highest(ctx, client)
	if err != nil {
		return nil, err
	}
	if last+n > Max {
		return nil, fmt.Errorf("adding %d nodes after number %d: a plane has at most %d", n, last, Max)
	}
	names := make([]string, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			node := New(last+1+i, version)
			names[i] = node.Name
			_, errs[i] = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("creating nodes: %w", err)
	}
	return names, nil
}

// highest returns the highest number of a node; 0 if there is none.
func highest(ctx context.Context, client kubernetes.Interface) (int, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing nodes: %w", err)
	}
	last := 0
	for i := range list.Items {
		if m := numbered.FindStringSubmatch(list.Items[i].Name); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				last = max(last, n)
			}
		}
	}
	return last, nil
}

// Remove deletes a node; the pod garbage collector deletes its pods.
func Remove(ctx context.Context, client kubernetes.Interface, name string) error {
	err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	return explain(err, "removing", name)
}

// SetConnected disconnects or reconnects a node.
func SetConnected(ctx context.Context, client kubernetes.Interface, name string, connected bool) error {
	verb, value := "cutting", any(nil)
	if connected {
		verb, value = "healing", "true"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{simkubelet.ConnectedLabel: value}}})
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb, name, err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return explain(err, verb, name)
}

// SetAPI serves the API of a node at an address; an empty address stops that.
func SetAPI(ctx context.Context, client kubernetes.Interface, name, listen string) error {
	const verb = "serving the API of"
	value := any(nil)
	if listen != "" {
		value = listen
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{simkubelet.APIListenAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb, name, err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return explain(err, verb, name)
}

func explain(err error, verb, name string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s node %s: there is no such node (see `localplane kubectl get nodes`)", verb, name)
	default:
		return fmt.Errorf("%s node %s: %w", verb, name, err)
	}
}

// Counts are the numbers of nodes.
type Counts struct {
	// Ready, NotReady and Cut count all nodes.
	Ready, NotReady, Cut int
	// Simulated counts simulated nodes; Real are the names of real nodes.
	Simulated int
	Real      []string
	// Unsettled counts nodes that are connected and not Ready yet, or Ready and still tainted; UnsettledReal counts the
	// real nodes among them.
	Unsettled, UnsettledReal int
}

// Count counts the nodes. isCut reports which real nodes are cut off, which the API server does not know.
func Count(ctx context.Context, client kubernetes.Interface, isCut func(name string) bool) (Counts, error) {
	var c Counts
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return c, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		node := &list.Items[i]
		state := stateOf(node, isCut)
		switch state {
		case Ready:
			c.Ready++
		case NotReady:
			c.NotReady++
		case Cut:
			c.Cut++
		}
		unsettled := state == NotReady || state == Ready && slices.ContainsFunc(node.Spec.Taints, ofNodeLifecycle)
		if unsettled {
			c.Unsettled++
		}
		if !Real(node) {
			c.Simulated++
			continue
		}
		c.Real = append(c.Real, node.Name)
		if unsettled {
			c.UnsettledReal++
		}
	}
	return c, nil
}

func ofNodeLifecycle(taint v1.Taint) bool {
	return taint.Key == v1.TaintNodeNotReady || taint.Key == v1.TaintNodeUnreachable
}

func stateOf(node *v1.Node, isCut func(name string) bool) State {
	if Real(node) && isCut(node.Name) || !Real(node) && !simkubelet.Connected(node) {
		return Cut
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			return Ready
		}
	}
	return NotReady
}
