// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/imageref"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// imageInventory has the images of each node by their full names, and their sizes.
type imageInventory struct {
	nodes map[string]map[string]bool
	sizes map[string]int64
	// reporting are the nodes that report their images.
	reporting int
}

// fullName returns the full name of an image, or the text itself if it is not a reference.
func fullName(text string) string {
	name, tag, err := imageref.Split(text)
	if err != nil {
		return text
	}
	full, err := imageref.Complete(name, tag)
	if err != nil {
		return text
	}
	return full.Name
}

func newImageInventory(nodes []corev1.Node) *imageInventory {
	s := &imageInventory{nodes: map[string]map[string]bool{}, sizes: map[string]int64{}}
	for i := range nodes {
		n := &nodes[i]
		if len(n.Status.Images) > 0 {
			s.reporting++
		}
		for _, image := range n.Status.Images {
			for _, name := range image.Names {
				s.add(n.Name, fullName(name))
				s.sizes[fullName(name)] = max(s.sizes[fullName(name)], image.SizeBytes)
			}
		}
	}
	return s
}

func (s *imageInventory) add(node, image string) {
	if s.nodes[image] == nil {
		s.nodes[image] = map[string]bool{}
	}
	s.nodes[image][node] = true
}

// nodeImages adds the data of NodeImages, if the user may read them.
func (s *imageInventory) nodeImages(ctx context.Context, c *options.Clients) {
	resource := schema.GroupVersionResource{Group: kruiseapi.Group, Version: kruiseapi.VersionStored, Resource: kruiseapi.ResourceNodeImage}
	list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	s.reporting = max(s.reporting, len(list.Items))
	for i := range list.Items {
		var n v1beta1.NodeImage
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &n); err != nil {
			continue
		}
		for name, image := range n.Status.ImageStatuses {
			for _, tag := range image.Tags {
				if tag.Phase == v1beta1.ImagePhaseSucceeded {
					s.add(n.Name, fullName(imageref.Join(name, tag.Tag)))
				}
			}
		}
	}
}

// lacking returns the nodes that do not report the image.
func (s *imageInventory) lacking(image string, among []string) []string {
	has := s.nodes[fullName(image)]
	return slices.DeleteFunc(slices.Clone(among), func(node string) bool { return has[node] })
}

// size returns the size of an image, if any node reports it.
func (s *imageInventory) size(image string) string {
	bytes := s.sizes[fullName(image)]
	if bytes <= 0 {
		return "of unknown size"
	}
	return options.Size(bytes)
}

// newImages returns the images of the edited template that the current template does not have.
func (f *prediction) newImages() []string {
	old := podtemplate.Images(f.was)
	return slices.DeleteFunc(podtemplate.Images(f.is), func(image string) bool { return slices.Contains(old, image) })
}

// markAgents sets Node.Agent where a change in place depends on it.
func (f *prediction) markAgents(ctx context.Context, c *options.Clients) {
	s := &f.view.Snapshot
	if !slices.ContainsFunc(s.Revisions, func(r rollout.Revision) bool { return r.Agent }) {
		return
	}
	agents := installed.Agents(ctx, c.Kubernetes)
	for i := range s.Nodes {
		s.Nodes[i].Agent = agents[s.Nodes[i].Name]
	}
}

// recreateForResources has pods recreated whose resources change, if the manager is known to run without the feature that changes these in place.
func (f *prediction) recreateForResources(ctx context.Context, c *options.Clients) {
	revisions := f.view.Snapshot.Revisions
	if !slices.ContainsFunc(revisions, func(r rollout.Revision) bool { return r.Resize }) || !installed.Recreates(ctx, c.Kubernetes) {
		return
	}
	for i := range revisions {
		if revisions[i].Resize {
			revisions[i].Change = rollout.Change{Why: rollout.DetailResources}
		}
	}
}

// waitForImages makes nodes wait for missing images if the set requires that, or if changes in place do.
func (f *prediction) waitForImages(ctx context.Context, c *options.Clients) {
	s, asked := &f.view.Snapshot, f.view.Workload.PullAhead.Wait
	var agents map[string]bool
	if !asked {
		if agents = f.agents(ctx, c); len(agents) == 0 {
			return
		}
		s.Set.ImagesInPlace = true
	}
	for _, image := range f.newImages() {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			n.ImageWait = n.ImageWait || (asked || agents[n.Name]) && len(f.imageInventory.lacking(image, []string{n.Name})) > 0
		}
	}
}

// agents returns the nodes on which changes in place of the set wait, because an agent is ready there. Flags that cannot be read count as not given, and
// agents as not there.
func (f *prediction) agents(ctx context.Context, c *options.Clients) map[string]bool {
	w := f.view.Workload
	if len(f.newImages()) == 0 || f.imageInventory.reporting == 0 || !predownload.MayWaitInPlace(w, &f.view.Snapshot.Set) {
		return nil
	}
	if flags, known := installed.Read(ctx, c.Kubernetes); known && !installed.WaitsInPlace(flags, w.Namespace, predownload.NeedsSecrets(w) || len(f.view.PullSecrets) > 0) {
		return nil
	}
	return installed.Agents(ctx, c.Kubernetes)
}
