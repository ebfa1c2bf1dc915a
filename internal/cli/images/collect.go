// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/podselector"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/imageref"
	"everynode.dev/everynode/internal/podtemplate"
)

// state is the state of an image on a node; if several are known, the highest one is shown.
type state uint8

const (
	notReported state = iota
	waiting
	failed
	pulling
	there
)

// image is what is known about an image.
type image struct {
	text  string // as it was first written
	size  int64
	nodes map[string]state
	why   map[string]string
}

// collector collects the images of a cluster.
type collector struct {
	c         *options.Clients
	namespace string
	one       bool // whether the command is for one set
	// images are the images by their full names.
	images map[string]*image
	notes  []string
}

// full returns the full name of an image, or the text itself if it cannot be parsed.
func full(text string) string {
	name, tag, err := imageref.Split(text)
	if err != nil {
		return text
	}
	complete, err := imageref.Complete(name, tag)
	if err != nil {
		return text
	}
	return complete.Name
}

func (l *collector) add(text string) *image {
	key := full(text)
	if l.images[key] == nil {
		l.images[key] = &image{text: text, nodes: map[string]state{}, why: map[string]string{}}
	}
	return l.images[key]
}

func (i *image) at(node string, s state) { i.nodes[node] = max(i.nodes[node], s) }

func (l *collector) report(ctx context.Context, sets []*resolver.Set) (*Report, error) {
	for _, set := range sets {
		pods, err := podselector.PodsOf(ctx, l.c, set)
		if err != nil {
			return nil, err
		}
		template, _, _ := unstructured.NestedMap(set.Object.Object, "spec", "template")
		for _, text := range podtemplate.Images(template) {
			wanted := l.add(text)
			for _, pod := range pods {
				if node := pod.Spec.NodeName; node != "" {
					wanted.at(node, notReported)
				}
			}
		}
	}
	jobs, err := l.jobs(ctx)
	if err == nil {
		err = l.nodeImages(ctx)
	}
	if err == nil {
		err = l.kubelets(ctx)
	}
	if err != nil {
		return nil, err
	}
	report := &Report{Images: []Image{}, Jobs: jobs}
	for _, key := range slices.Sorted(maps.Keys(l.images)) {
		report.Images = append(report.Images, l.images[key].toImage())
	}
	return report, nil
}

// list lists a kind of apps.kruise.io. The result is empty if the cluster does not have the kind, or if the user may
// not read it.
func (l *collector) list(ctx context.Context, name, namespace string) ([]unstructured.Unstructured, error) {
	kind := name + "." + kruise.Group
	if !resolver.Served(l.c, resource(name)) {
		l.notes = append(l.notes, "this cluster has no "+kind+", so images that are pulled ahead are not known")
		return nil, nil
	}
	list, err := l.c.Dynamic.Resource(resource(name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		return list.Items, nil
	case apierrors.IsForbidden(err):
		l.notes = append(l.notes, "you are not allowed to list "+kind+", so they are not taken into account")
		return nil, nil
	}
	return nil, options.Explain(err, options.Request{Verb: "list", Resource: resource(name).GroupResource(), Namespace: namespace})
}

// jobs returns the jobs of the namespace; for one set, only those for its images.
func (l *collector) jobs(ctx context.Context) ([]Job, error) {
	items, err := l.list(ctx, kruise.ResourceJob, l.namespace)
	if err != nil {
		return nil, err
	}
	jobs := []Job{}
	for i := range items {
		job := &v1beta1.ImagePullJob{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, job); err != nil {
			l.notes = append(l.notes, "the ImagePullJob "+items[i].GetName()+" cannot be read")
			continue
		}
		if l.one && l.images[full(job.Spec.Image)] == nil {
			continue
		}
		l.add(job.Spec.Image)
		s := &job.Status
		jobs = append(jobs, Job{
			Namespace: job.Namespace, Name: job.Name, Image: job.Spec.Image, Desired: int64(s.Desired), Active: int64(s.Active),
			Succeeded: int64(s.Succeeded), Failed: int64(s.Failed), Done: s.CompletionTime != nil, Message: s.Message,
		})
	}
	slices.SortFunc(jobs, func(a, b Job) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return jobs, nil
}

// nodeImages adds what agents pull, and their reports.
func (l *collector) nodeImages(ctx context.Context) error {
	if len(l.images) == 0 || !resolver.Served(l.c, resource(kruise.ResourceJob)) { // all kinds of the group are installed together
		return nil
	}
	items, err := l.list(ctx, kruise.ResourceNodeImage, "")
	if err != nil {
		return err
	}
	for i := range items {
		node := &v1beta1.NodeImage{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(items[i].Object, node); err != nil {
			l.notes = append(l.notes, "the NodeImage "+items[i].GetName()+" cannot be read")
			continue
		}
		for name, spec := range node.Spec.Images {
			for _, tag := range spec.Tags {
				if known := l.images[full(imageref.Join(name, tag.Tag))]; known != nil {
					known.observeNodeImage(node, name, &tag)
				}
			}
		}
	}
	return nil
}

// observeNodeImage adds the report of an agent for one tag. A report for an earlier request is ignored.
func (i *image) observeNodeImage(node *v1beta1.NodeImage, name string, tag *v1beta1.ImageTagSpec) {
	i.at(node.Name, waiting)
	for _, status := range node.Status.ImageStatuses[name].Tags {
		if status.Tag != tag.Tag || status.Version != tag.Version {
			continue
		}
		switch status.Phase {
		case v1beta1.ImagePhaseSucceeded:
			i.at(node.Name, there)
		case v1beta1.ImagePhasePulling:
			i.at(node.Name, pulling)
		case v1beta1.ImagePhaseFailed:
			i.at(node.Name, failed)
			i.why[node.Name] = status.Message
		case v1beta1.ImagePhaseWaiting:
		}
	}
}

// page is the page size for nodes.
const page = 500

// kubelets adds the reports of kubelets. If the user may not read nodes, it prints a note.
func (l *collector) kubelets(ctx context.Context) error {
	if len(l.images) == 0 {
		return nil
	}
	list := metav1.ListOptions{Limit: page}
	for {
		nodes, err := l.c.Kubernetes.CoreV1().Nodes().List(ctx, list)
		if apierrors.IsForbidden(err) {
			l.notes = append(l.notes, "you are not allowed to list nodes, so what their kubelets report is not taken into account")
			return nil
		}
		if err != nil {
			return options.Explain(err, options.Request{Verb: "list", Resource: corev1.Resource("nodes")})
		}
		for i := range nodes.Items {
			l.reported(&nodes.Items[i])
		}
		if list.Continue = nodes.Continue; list.Continue == "" {
			return nil
		}
	}
}

func (l *collector) reported(node *corev1.Node) {
	for _, have := range node.Status.Images {
		for _, name := range have.Names {
			known := l.images[full(name)]
			if known == nil {
				continue
			}
			known.size = max(known.size, have.SizeBytes)
			if _, needed := known.nodes[node.Name]; needed {
				known.at(node.Name, there)
			}
		}
	}
}

// toImage converts the image for the output.
func (i *image) toImage() Image {
	one := Image{
		Image: i.text, SizeBytes: i.size, Nodes: len(i.nodes), There: []string{}, Pulling: []string{}, Waiting: []string{}, Failed: []Failure{}, NotReported: []string{},
	}
	for _, node := range slices.Sorted(maps.Keys(i.nodes)) {
		switch i.nodes[node] {
		case there:
			one.There = append(one.There, node)
		case pulling:
			one.Pulling = append(one.Pulling, node)
		case waiting:
			one.Waiting = append(one.Waiting, node)
		case failed:
			one.Failed = append(one.Failed, Failure{node, i.why[node]})
		case notReported:
			one.NotReported = append(one.NotReported, node)
		}
	}
	return one
}
