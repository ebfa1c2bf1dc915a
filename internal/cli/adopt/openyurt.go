// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/peers"
)

const (
	// yurtManager is the name of the Deployment of yurt-manager in OpenYurt's chart.
	yurtManager = "yurt-manager"
	// edgeRole is the role that Everynode's manager needs for the dialect.
	edgeRole = "everynode-manager-openyurt"
)

// edge is one run of adopt openyurt.
type edge struct {
	*options.Options
	change.Flags
	back bool
}

func newOpenYurt(o *options.Options) *cobra.Command {
	e := &edge{Options: o}
	c := &cobra.Command{
		Use:   "openyurt",
		Short: "Let Everynode update DaemonSets in place of yurt-manager, or undo that",
		Long: "Let Everynode update DaemonSets with OpenYurt's annotations in place of yurt-manager. Everything else that yurt-manager does goes on:\n" +
			"its controller " + updater() + " is switched off in the flag " + peers.FlagControllers + " of its Deployment, which rolls the pods of that Deployment and no others.\n" +
			"Everynode starts when a pod with the new flags is the leader.\n\n" +
			"The old value of the flag is kept in an annotation of the Deployment. --back restores it, unless everynode-manager serves openyurt: both\n" +
			"would be active, so remove openyurt from --dialects first.\n\n" + options.ExitText,
		Example: "  # What would change?\n  kubectl everynode adopt openyurt --dry-run\n\n" +
			"  # Everynode updates DaemonSets with OpenYurt's annotations\n  kubectl everynode adopt openyurt\n\n" +
			"  # The way back\n  kubectl everynode adopt openyurt --back",
		Args: options.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.Flags.Validate(); err != nil {
				return err
			}
			clients, err := e.Clients()
			if err != nil {
				return err
			}
			return e.run(cmd.Context(), clients)
		},
	}
	c.Flags().BoolVar(&e.back, "back", false, "Restore the flag of yurt-manager.")
	e.Flags.Add(c)
	return c
}

// updater returns the controller of yurt-manager that updates DaemonSets.
func updater() string { return dialects.PeerOf(dialects.OpenYurt).Controller[0] }

// manualRemedy returns how to change a yurt-manager that cannot be changed here.
func manualRemedy() string {
	return "start it with " + peers.FlagControllers + "=-" + updater() + ",* yourself"
}

func (e *edge) run(ctx context.Context, c *options.Clients) error {
	object, err := deployment(ctx, c)
	if err != nil {
		return err
	}
	ready, edit, done := e.refuseIfServed, switchOn, "updates DaemonSets again when a pod with the restored flags is the leader"
	if !e.back {
		ready, edit, done = installedEdge, switchOff, "leaves the update of DaemonSets to Everynode when a pod with the new flags is the leader"
	}
	if err := ready(ctx, c); err != nil {
		return err
	}
	result, err := change.Patch(ctx, c, change.Request{Object: *object, Flags: e.Flags, Edit: edit})
	if err != nil {
		return err
	}
	release := object.Read.GetAnnotations()[change.HelmRelease]
	explain := release != "" && !e.back
	if err := change.Report(e.Options, e.Flags, change.Outcome{Object: *object, Result: result, Done: done, MakerTold: explain}); err != nil {
		return err
	}
	if explain {
		if at, err := find(result.Object); err == nil {
			change.Note(e.Options, "the Helm release %s has installed it: set controllers: %q in its values too, or its next upgrade reverts this", release, at.value)
		}
	}
	return nil
}

func deployment(ctx context.Context, c *options.Clients) (*change.Object, error) {
	namespace, resource := dialects.PeerOf(dialects.OpenYurt).Namespace, appsv1.SchemeGroupVersion.WithResource("deployments")
	read, err := c.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, yurtManager, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Deployment %s/%s: if yurt-manager runs elsewhere, %s; if it does not run, there is nothing to adopt", namespace, yurtManager, manualRemedy())
	}
	if err != nil {
		return nil, options.Explain(err, options.Request{Verb: "get", Resource: resource.GroupResource(), Namespace: namespace, Name: yurtManager})
	}
	return &change.Object{Resource: resource, Read: read}, nil
}

// installedEdge returns an error if Everynode cannot serve the dialect: then no controller would update the sets.
func installedEdge(ctx context.Context, c *options.Clients) error {
	_, err := c.Kubernetes.RbacV1().ClusterRoles().Get(ctx, edgeRole, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no ClusterRole %s, so no controller would update these DaemonSets: install the dialect first (kubectl apply -f config/openyurt, or dialects in the values of "+
			"the chart), and have everynode-manager serve it (--dialects=…,openyurt)", edgeRole)
	}
	return options.Explain(err, options.Request{Verb: "get", Resource: rbacv1.Resource("clusterroles"), Name: edgeRole})
}

// refuseIfServed returns an error if Everynode serves the dialect, as far as that is known: then both controllers
// would.
func (e *edge) refuseIfServed(ctx context.Context, c *options.Clients) error {
	const remedy = "take openyurt out of its --dialects (dialects in the values of the chart)"
	manager, err := c.Kubernetes.AppsV1().Deployments(everynode.Namespace).Get(ctx, installed.Manager, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		change.Note(e.Options, "you are not allowed to read the Deployment %s/%s: ask an administrator to %s, or both may be active", everynode.Namespace, installed.Manager, remedy)
		return nil
	case err != nil:
		return options.Explain(err, options.Request{Verb: "get", Resource: appsv1.Resource("deployments"), Namespace: everynode.Namespace, Name: installed.Manager})
	case manager.Spec.Replicas != nil && *manager.Spec.Replicas == 0:
		return nil
	}
	flags := installed.Flags(manager)
	if slices.Contains(installed.Dialects(flags), dialects.OpenYurt) {
		return fmt.Errorf("the Deployment %s/%s serves openyurt, so both would be active: %s, wait until its pods are new, and run this command again",
			everynode.Namespace, installed.Manager, remedy)
	}
	if s := manager.Status; s.ObservedGeneration < manager.Generation || s.UpdatedReplicas < s.Replicas {
		return fmt.Errorf("the Deployment %s/%s is being rolled out, so a pod that serves openyurt may still be active: wait for `kubectl -n %s rollout status deployment/%s`, and run this command again",
			everynode.Namespace, installed.Manager, everynode.Namespace, installed.Manager)
	}
	if file := flags["config"]; file != "" {
		change.Note(e.Options, "dialects may also be set in the file %s of the Deployment %s/%s: make sure that openyurt is not among them", file, everynode.Namespace, installed.Manager)
	}
	return nil
}

// flagPosition is the place of the flag with the controllers in a Deployment.
type flagPosition struct {
	containers []any
	container  map[string]any // the container with the flag
	args       []string
	at         int
	prefix     string // the argument, up to the value
	value      string
}

// find returns the position. It must be unique: versions of yurt-manager differ in how they handle several flags.
func find(object *unstructured.Unstructured) (*flagPosition, error) {
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return nil, fmt.Errorf("reading the containers of the Deployment %s: %w", object.GetName(), err)
	}
	var all []*flagPosition
	for _, one := range containers {
		container, _ := one.(map[string]any)
		args, _, err := unstructured.NestedStringSlice(container, "args")
		if err != nil {
			return nil, fmt.Errorf("reading the arguments of the Deployment %s: %w", object.GetName(), err)
		}
		for i, word := range args {
			if value, joined := strings.CutPrefix(word, peers.FlagControllers+"="); joined {
				all = append(all, &flagPosition{containers, container, args, i, peers.FlagControllers + "=", value})
			} else if word == peers.FlagControllers && i+1 < len(args) {
				all = append(all, &flagPosition{containers, container, args, i + 1, "", args[i+1]})
			}
		}
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("the arguments of the Deployment %s have the flag %s %d times, not once, so it is not changed here: %s", object.GetName(), peers.FlagControllers, len(all), manualRemedy())
	}
	return all[0], nil
}

// put sets the value.
func (p *flagPosition) put(object *unstructured.Unstructured, value string) error {
	args := slices.Clone(p.args)
	args[p.at] = p.prefix + value
	if err := unstructured.SetNestedStringSlice(p.container, args, "args"); err != nil {
		return fmt.Errorf("writing %s: %w", peers.FlagControllers, err)
	}
	return unstructured.SetNestedSlice(object.Object, p.containers, "spec", "template", "spec", "containers")
}

// without returns a value of the flag that disables the controller. Its name comes first, because the first match
// decides; all versions know that name.
func without(value string) string {
	names := dialects.PeerOf(dialects.OpenYurt).Controller
	others := slices.DeleteFunc(strings.Split(value, ","), func(word string) bool {
		return slices.Contains(names, strings.TrimPrefix(word, "-"))
	})
	return strings.Join(append([]string{"-" + names[0]}, others...), ",")
}

func switchOff(object *unstructured.Unstructured) error {
	p, err := find(object)
	if err != nil || peers.Off(strings.Split(p.value, ","), dialects.PeerOf(dialects.OpenYurt).Controller) {
		return err
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[everynode.KeptControllers] = p.value
	object.SetAnnotations(annotations)
	return p.put(object, without(p.value))
}

func switchOn(object *unstructured.Unstructured) error {
	annotations := object.GetAnnotations()
	kept, found := annotations[everynode.KeptControllers]
	if !found {
		return fmt.Errorf("there is no backup to restore: adopt openyurt has not changed the Deployment %s, or the flag has been restored already", object.GetName())
	}
	p, err := find(object)
	if err != nil {
		return err
	}
	if p.value != kept && p.value != without(kept) {
		return fmt.Errorf("%s of the Deployment %s is %q now; adopt openyurt has found %q, and left %q: it was changed since, so set it manually, and remove the annotation %s",
			peers.FlagControllers, object.GetName(), p.value, kept, without(kept), everynode.KeptControllers)
	}
	delete(annotations, everynode.KeptControllers)
	object.SetAnnotations(annotations)
	return p.put(object, kept)
}
