// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/cli/options"
)

// The ways of a dry run.
const (
	DryRunNone   = "none"   // the change is made
	DryRunClient = "client" // the change is printed, and nothing is sent
	DryRunServer = "server" // the request is sent, and the API server does not store it
)

// Flags are the flags of every command that changes something.
type Flags struct {
	DryRun string
	Force  bool
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	f.AddDryRun(cmd)
	cmd.Flags().BoolVar(&f.Force, "force-conflicts", false, "Also change fields that another field manager has applied.")
}

// AddDryRun adds the flag --dry-run alone.
func (f *Flags) AddDryRun(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.DryRun, "dry-run", DryRunNone, "none, server (the API server checks it, and stores nothing) or client (nothing is sent). Without a value: server.")
	flags.Lookup("dry-run").NoOptDefVal = DryRunServer
	complete := cobra.FixedCompletions(dryRunModes(), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("dry-run", complete); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
}

func dryRunModes() []string { return []string{DryRunNone, DryRunServer, DryRunClient} }

// Validate validates the flags.
func (f *Flags) Validate() error {
	if !slices.Contains(dryRunModes(), f.DryRun) {
		return options.Usagef("--dry-run %q is not known: write one of %s", f.DryRun, strings.Join(dryRunModes(), ", "))
	}
	return nil
}

// Dry reports whether this is a dry run.
func (f *Flags) Dry() bool { return f.DryRun != DryRunNone }

// Suffix is appended to a line of a dry run, and is empty otherwise.
func (f *Flags) Suffix() string {
	switch f.DryRun {
	case DryRunServer:
		return " (server dry run)"
	case DryRunClient:
		return " (dry run)"
	default:
		return ""
	}
}

// ServerSide is the dryRun option of requests to the API server.
func (f *Flags) ServerSide() []string {
	if f.DryRun == DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Object is the object to change.
type Object struct {
	Resource schema.GroupVersionResource
	// Read is the object as it was read.
	Read *unstructured.Unstructured
}

// Name returns the name of the object as kubectl writes it: daemonset.apps.kruise.io/agent, pod/agent-x.
func (t Object) Name() string {
	return strings.TrimSuffix(strings.ToLower(t.Read.GetKind())+"."+t.Resource.Group, ".") + "/" + t.Read.GetName()
}

// Edit changes an object. It is called again if another client has changed the object in the meantime.
type Edit func(object *unstructured.Unstructured) error

// Result is the result of an edit.
type Result struct {
	// Object is the object after the edit, or as it would be.
	Object *unstructured.Unstructured
	// Fields are the changed fields; none if the object already had these values.
	Fields []Field
}

// attempts is how often an edit is retried when other clients change the object too: during a rollout, its status
// changes all the time.
const attempts = 8

// Request describes a change.
type Request struct {
	Object Object
	Flags  Flags
	Edit   Edit
}

// Patch edits an object.
func Patch(ctx context.Context, c *options.Clients, wish Request) (*Result, error) {
	object := &wish.Object
	request := options.Request{
		Verb: "patch", Resource: object.Resource.GroupResource(), Namespace: object.Read.GetNamespace(), Name: object.Read.GetName(),
	}
	for attempt := 1; ; attempt++ {
		result, err := tryOnce(ctx, c, &wish)
		if err == nil {
			return result, nil
		}
		if !apierrors.IsConflict(err) || attempt == attempts {
			return nil, explain(err, request)
		}
		fresh, err := object.client(c).Get(ctx, object.Read.GetName(), metav1.GetOptions{})
		if err != nil {
			request.Verb = "get"
			return nil, options.Explain(err, request)
		}
		if fresh.GetUID() != object.Read.GetUID() {
			return nil, fmt.Errorf("%s was recreated; review it and run the command again", object.Name())
		}
		object.Read = fresh
	}
}

// explain adds the request to an error of the API server.
func explain(err error, request options.Request) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return options.Explain(err, request)
	}
	return err
}

// tryOnce edits the object as it was read.
func tryOnce(ctx context.Context, c *options.Clients, wish *Request) (*Result, error) {
	object, flags := &wish.Object, &wish.Flags
	after := object.Read.DeepCopy()
	if err := wish.Edit(after); err != nil {
		return nil, err
	}
	result := &Result{Object: after, Fields: Fields(object.Read.Object, after.Object)}
	if len(result.Fields) == 0 {
		return result, nil
	}
	if !flags.Force {
		if err := Conflict(*object, result.Fields); err != nil {
			return nil, err
		}
	}
	if flags.DryRun == DryRunClient {
		return result, nil
	}
	patch, err := mergePatch(object.Read, after)
	if err != nil {
		return nil, err
	}
	how := metav1.PatchOptions{FieldManager: options.FieldManager, DryRun: flags.ServerSide()}
	result.Object, err = object.client(c).Patch(ctx, after.GetName(), types.MergePatchType, patch, how)
	return result, err
}

func (t Object) client(c *options.Clients) client {
	if namespace := t.Read.GetNamespace(); namespace != "" {
		return c.Dynamic.Resource(t.Resource).Namespace(namespace)
	}
	return c.Dynamic.Resource(t.Resource)
}

// client is the part of a dynamic client that is used here.
type client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// mergePatch returns the patch from before to after, with a precondition on the version. Integers are kept exactly: the
// number that users write for "forever" does not fit into a float64.
func mergePatch(before, after *unstructured.Unstructured) ([]byte, error) {
	patch := difference(before.Object, after.Object)
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = before.GetResourceVersion()
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return data, nil
}

// difference returns the merge patch from one map to another: null removes a field.
func difference(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range before {
		if _, kept := after[key]; !kept {
			patch[key] = nil
		}
	}
	for key, value := range after {
		old, was := before[key]
		from, isMap := old.(map[string]any)
		to, areMaps := value.(map[string]any)
		switch {
		case was && reflect.DeepEqual(old, value):
		case isMap && areMaps:
			patch[key] = difference(from, to)
		default:
			patch[key] = value
		}
	}
	return patch
}
