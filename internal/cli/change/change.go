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
	DryRunNone   = "none"   // it is done
	DryRunClient = "client" // it is printed, and nothing is sent
	DryRunServer = "server" // it is sent, and the API server does all but store it
)

// Flags are the flags of every verb that changes something.
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
		panic(err) // the flag is not there: found by every test that makes a command
	}
}

func dryRunModes() []string { return []string{DryRunNone, DryRunServer, DryRunClient} }

// Validate says what is wrong with the flags.
func (f *Flags) Validate() error {
	if !slices.Contains(dryRunModes(), f.DryRun) {
		return options.Usagef("--dry-run %q is not known: write one of %s", f.DryRun, strings.Join(dryRunModes(), ", "))
	}
	return nil
}

// Dry is whether nothing is to change.
func (f *Flags) Dry() bool { return f.DryRun != DryRunNone }

// Suffix says behind a line that nothing has changed, and is empty where something has.
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

// Object is what is changed.
type Object struct {
	Resource schema.GroupVersionResource
	// Read is the object as it was read.
	Read *unstructured.Unstructured
}

// Name is how kubectl names the object: daemonset.apps.kruise.io/agent, pod/agent-x.
func (t Object) Name() string {
	return strings.TrimSuffix(strings.ToLower(t.Read.GetKind())+"."+t.Resource.Group, ".") + "/" + t.Read.GetName()
}

// Edit changes an object. It is called again where somebody else has changed the object meanwhile.
type Edit func(object *unstructured.Unstructured) error

// Result is what an edit has come to.
type Result struct {
	// Object is the object as it is now, or as it would be.
	Object *unstructured.Unstructured
	// Fields are what the edit has changed; none when it was so before.
	Fields []Field
}

// attempts is how often an edit is tried while others change the object as well: in the middle of a roll its status changes all the time.
const attempts = 8

// Request is what is to be changed, and how.
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

// explain says of what the API server has answered what was asked; what was never sent explains itself.
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

// client is what is needed of a dynamic client.
type client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// mergePatch makes one of two into the other, as long as nobody has changed it. Whole numbers stay whole: what people write for "for ever" is
// larger than a float64 can hold.
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

// difference is what has to be merged into one map to make it another: null removes what is there.
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
