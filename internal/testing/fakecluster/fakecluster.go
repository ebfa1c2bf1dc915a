// SPDX-License-Identifier: Apache-2.0

// Package fakecluster is an imaginary cluster for tests of the verbs: clients that answer from objects that a test gives, and a command line
// whose output is kept.
//
// Typed objects are served by the typed client and by the dynamic one, which share nothing: what one of them writes the other does not show.
package fakecluster

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/cli/options"

	"github.com/spf13/cobra"
)

// Now is when all tests play.
func Now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// atOnce waits for nothing.
func atOnce(time.Duration) <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// Cluster is an imaginary cluster, and a person in front of it.
type Cluster struct {
	Options    *options.Options
	Kubernetes *fake.Clientset
	Dynamic    *dynamicfake.FakeDynamicClient
	Discovery  *fakediscovery.FakeDiscovery
	// Out and Err are what has been printed.
	Out, Err *bytes.Buffer
	// Env is the environment.
	Env map[string]string
	// Denied reports whether the review of a right reports that it is missing.
	Denied bool
}

// New is a cluster with these objects, with the kinds of apps.kruise.io.
func New(tb testing.TB, objects ...runtime.Object) *Cluster {
	tb.Helper()
	c := &Cluster{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Env: map[string]string{}}
	var typed, untyped []runtime.Object
	for _, object := range objects {
		if _, ok := object.(*unstructured.Unstructured); !ok {
			typed = append(typed, object)
		}
		untyped = append(untyped, Unstructured(tb, object))
	}
	c.Kubernetes = fake.NewClientset(typed...)
	c.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds(), untyped...)
	c.Discovery = c.Kubernetes.Discovery().(*fakediscovery.FakeDiscovery)
	c.Discovery.FakedServerVersion = &version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"}
	c.Discovery.Resources = []*metav1.APIResourceList{
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true}}},
		{GroupVersion: kruiseapi.Group + "/" + kruiseapi.VersionStored, APIResources: []metav1.APIResource{
			{Name: kruiseapi.Resource, Kind: kruiseapi.Kind, Namespaced: true},
			{Name: kruiseapi.ResourceJob, Kind: kruiseapi.KindJob, Namespaced: true}, {Name: kruiseapi.ResourceNodeImage, Kind: kruiseapi.KindNodeImage},
		}},
		{GroupVersion: v1alpha1.GroupVersion().String(), APIResources: []metav1.APIResource{
			{Name: v1alpha1.ResourcePolicies, Kind: "RolloutPolicy", Namespaced: true}, {Name: v1alpha1.ResourceApprovals, Kind: "RolloutApproval", Namespaced: true},
		}},
	}
	c.Kubernetes.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !c.Denied}}, nil
	})
	c.tryPolicies(tb)
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: c.Out, ErrOut: c.Err}
	c.Options = options.New(streams)
	c.Options.Version = "v0.0.0-test"
	c.Options.Now, c.Options.After = Now, atOnce
	c.Options.Getenv = func(name string) string { return c.Env[name] }
	c.Options.Given = &options.Clients{Kubernetes: c.Kubernetes, Dynamic: c.Dynamic, Discovery: c.Discovery, Namespace: "default"}
	return c
}

// listKinds are the kinds that the dynamic client can list.
func listKinds() map[schema.GroupVersionResource]string {
	kruise := schema.GroupVersion{Group: kruiseapi.Group, Version: kruiseapi.VersionStored}
	return map[schema.GroupVersionResource]string{
		{Group: "apps", Version: "v1", Resource: "daemonsets"}:                                              "DaemonSetList",
		{Group: "apps", Version: "v1", Resource: "controllerrevisions"}:                                     "ControllerRevisionList",
		{Version: "v1", Resource: "pods"}:                                                                   "PodList",
		{Version: "v1", Resource: "nodes"}:                                                                  "NodeList",
		kruise.WithResource(kruiseapi.Resource):                                                             "DaemonSetList",
		kruise.WithResource(kruiseapi.ResourceJob):                                                          "ImagePullJobList",
		kruise.WithResource(kruiseapi.ResourceNodeImage):                                                    "NodeImageList",
		v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies):                                     "RolloutPolicyList",
		v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceApprovals):                                    "RolloutApprovalList",
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}:               "CustomResourceDefinitionList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}: "ValidatingWebhookConfigurationList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}:   "MutatingWebhookConfigurationList",
	}
}

// WithoutKruise removes the kinds of apps.kruise.io, and Everynode with them.
func (c *Cluster) WithoutKruise() *Cluster {
	c.Discovery.Resources = c.Discovery.Resources[:1]
	return c
}

// WithoutPolicies removes the kinds of rollout policies, and answers like an API server that does not know them.
func (c *Cluster) WithoutPolicies() *Cluster {
	c.Discovery.Resources = slices.DeleteFunc(c.Discovery.Resources, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == v1alpha1.GroupVersion().String()
	})
	for _, resource := range []string{v1alpha1.ResourcePolicies, v1alpha1.ResourceApprovals} {
		c.Dynamic.PrependReactor("*", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, action.GetVerb(), action.GetResource().GroupResource(), "", "", 0, true)
		})
	}
	return c
}

// Watched returns a channel that is closed when the first watch of a resource has begun. Writes between a list and the watch after it are not
// reported: fake clients send only what comes after a watch has begun.
func (c *Cluster) Watched(resource string) <-chan struct{} {
	stands, once := make(chan struct{}), sync.Once{}
	c.Kubernetes.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		var o metav1.ListOptions
		if a, ok := action.(clienttesting.WatchActionImpl); ok {
			o = a.ListOptions
		}
		w, err := c.Kubernetes.Tracker().Watch(action.GetResource(), action.GetNamespace(), o)
		if err == nil {
			once.Do(func() { close(stands) })
		}
		return true, w, err
	})
	return stands
}

// Run plays one command line to the verb, or to the whole program.
func (c *Cluster) Run(tb testing.TB, root func(*options.Options) *cobra.Command, args ...string) error {
	tb.Helper()
	return c.RunUntil(tb.Context(), root, args...)
}

// RunUntil is Run of a verb that goes on until ctx ends.
func (c *Cluster) RunUntil(ctx context.Context, root func(*options.Options) *cobra.Command, args ...string) error {
	cmd := root(c.Options)
	if !cmd.HasSubCommands() {
		alone := &cobra.Command{Use: options.Program, SilenceErrors: true, SilenceUsage: true}
		alone.AddCommand(cmd)
		args = append([]string{cmd.Name()}, args...)
		cmd = alone
		c.Options.AddFlags(alone)
	}
	cmd.SetOut(c.Out)
	cmd.SetErr(c.Err)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// Unstructured is an object as the dynamic client has it.
func Unstructured(tb testing.TB, object runtime.Object) *unstructured.Unstructured {
	tb.Helper()
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		tb.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		tb.Fatal(err)
	}
	u.SetGroupVersionKind(kinds[0])
	return u
}

// Object is the object of a manifest, as the dynamic client has it.
func Object(tb testing.TB, manifest string) *unstructured.Unstructured {
	tb.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		tb.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		tb.Fatal(err)
	}
	return object
}

// Node is a node that is ready, or has not been for a minute.
func Node(name string, ready bool) *corev1.Node {
	status, since := corev1.ConditionTrue, metav1.NewTime(Now().Add(-24*time.Hour))
	if !ready {
		status, since = corev1.ConditionUnknown, metav1.NewTime(Now().Add(-time.Minute))
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(Now().Add(-48 * time.Hour)), Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: since}}},
	}
}

// Golden compares got with testdata/name, or writes it.
func Golden(tb testing.TB, update bool, name, got string) {
	tb.Helper()
	path := filepath.Join("testdata", name)
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v (write it with -update)", err)
	}
	if got != string(want) {
		tb.Errorf("%s differs (update it with -update, and read the diff):\n%s\nwant\n%s", path, got, want)
	}
}
