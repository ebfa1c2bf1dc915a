// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// reportedImages is the maximum number of images in a node's status, the default of a kubelet.
const reportedImages = 50

// minImageReport is the minimum report period, to limit the load.
const minImageReport = 100 * time.Millisecond

// nodeState returns the state of a node; for a new one, it is derived from its status and its pods.
func (k *Kubelet) nodeState(node *v1.Node) *nodeState {
	k.mu.Lock()
	defer k.mu.Unlock()
	ns := k.nodeStates[node.Name]
	if ns == nil {
		ns = &nodeState{images: NewImageStore(k.knownImages(node)...), reported: len(node.Status.Images)}
		k.nodeStates[node.Name] = ns
	}
	return ns
}

func (k *Kubelet) knownImages(node *v1.Node) []string {
	var refs []string
	for _, image := range node.Status.Images {
		refs = append(refs, image.Names...)
	}
	pods, err := k.pods.GetIndexer().ByIndex(byNode, node.Name)
	if err != nil {
		k.Log.Error("looking up the pods of a node", "node", node.Name, "err", err)
		return refs
	}
	for _, obj := range pods {
		for _, st := range obj.(*v1.Pod).Status.ContainerStatuses {
			if st.ImageID != "" {
				refs = append(refs, st.Image)
			}
		}
	}
	return refs
}

func (k *Kubelet) forgetNode(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	node, ok := obj.(*v1.Node)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.nodeStates, node.Name)
}

// reportTurns is the number of groups of nodes that report their images at different times within a period, because
// kubelets do not write at the same time.
const reportTurns = 50

// reportImages periodically reports the pulled images in the nodes' status, as a kubelet does.
func (k *Kubelet) reportImages(ctx context.Context) {
	period := max(k.Profile.ImageReport, minImageReport)
	turns := max(1, min(reportTurns, int(period/minImageReport)))
	ticker := k.Clock.NewTicker(period / time.Duration(turns))
	defer ticker.Stop()
	for turn := 0; ; turn = (turn + 1) % turns {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			k.reportTurn(ctx, turn, turns)
		}
	}
}

// turnOf returns the group in which a node reports.
func turnOf(node string, turns int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node)) // writing to a hash never fails
	return int(h.Sum32() % uint32(turns))
}

func (k *Kubelet) reportTurn(ctx context.Context, turn, turns int) {
	const atOnce = 8
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, obj := range k.nodes.GetStore().List() {
		node := obj.(*v1.Node)
		if turnOf(node.Name, turns) != turn || !Connected(node) || ctx.Err() != nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := k.reportNodeImages(ctx, node); err != nil && ctx.Err() == nil {
				k.Log.Warn("reporting a node's images", "node", node.Name, "err", err)
			}
		})
	}
	wg.Wait()
}

// reportNodeImages writes the list if it has grown since the last time.
func (k *Kubelet) reportNodeImages(ctx context.Context, node *v1.Node) error {
	ns := k.nodeState(node)
	ns.mu.Lock()
	refs, reported := ns.images.List(k.Clock.Now()), ns.reported
	ns.mu.Unlock()
	images := imageList(refs)
	if len(images) == reported {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"images": images}})
	if err != nil {
		return fmt.Errorf("encoding the images: %w", err)
	}
	_, err = k.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, raw, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the node's status: %w", err)
	}
	ns.mu.Lock()
	ns.reported = len(images)
	ns.mu.Unlock()
	return nil
}

func imageList(refs []string) []v1.ContainerImage {
	refs = refs[:min(len(refs), reportedImages)]
	images := make([]v1.ContainerImage, 0, len(refs))
	for _, ref := range refs {
		images = append(images, v1.ContainerImage{Names: []string{ref}, SizeBytes: imageSize(ref)})
	}
	return images
}

func nodeReady(node *v1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func internalIP(node *v1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == v1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
