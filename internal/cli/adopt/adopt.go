// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/dialect/kruise"
)

// adopt does the remaining steps.
func (v *verb) adopt(ctx context.Context, c *options.Clients) error {
	foreign, err := v.foreign(ctx, c)
	if err != nil {
		return err
	}
	v.warnOfTheWayBack(foreign)
	if len(foreign) > 0 {
		if err := v.refuseIfActive(ctx, c, openKruise()); err != nil {
			return err
		}
		if err := v.installed(ctx, c); err != nil {
			return err
		}
	}
	if err := v.removeHooks(ctx, c, len(foreign) > 0); err != nil {
		return err
	}
	for _, one := range foreign {
		if err := v.replace(ctx, c, one.now, one.next); err != nil {
			return err
		}
	}
	return v.migrateStorage(ctx, c, len(foreign) > 0)
}

// warnOfTheWayBack lists the CRDs without the version in which objects are now stored: before these CRDs can be restored, objects must be stored in another version.
func (v *verb) warnOfTheWayBack(all []foreign) {
	for _, one := range all {
		if have := versionsOf(one.now); !slices.Contains(have, storedVersion) {
			v.Note("%s has only %s. After it is replaced, objects are stored as %s; then adopt --back refuses to restore it until all objects are stored as %s again (docs/migration.md)",
				definitionRef(one.now.GetName()), strings.Join(have, ", "), storedVersion, have[0])
		}
	}
}

// foreign is a CRD that is not Everynode's, and the one that takes its place.
type foreign struct{ now, next *unstructured.Unstructured }

// foreign returns the CRDs that are not Everynode's. A missing CRD is an error: a manager that serves the
// dialect waits for all of them.
func (v *verb) foreign(ctx context.Context, c *options.Clients) ([]foreign, error) {
	var all []foreign
	var missing []string
	for _, resource := range resources() {
		t := definition(resource)
		now, err := t.get(ctx, c)
		if err != nil {
			return nil, err
		}
		if now == nil {
			missing = append(missing, t.name)
			continue
		}
		if kruise.OwnDefinition(now) {
			continue
		}
		next, err := shipped(now.GetName())
		if err == nil {
			err = covers(next, now, "Everynode's")
		}
		if err != nil {
			return nil, err
		}
		all = append(all, foreign{now, next})
	}
	switch {
	case len(missing) == len(resources()):
		return nil, errors.New("this cluster has no CRDs of apps.kruise.io: there is nothing to adopt; install Everynode's CRDs (config/kruise)")
	case len(missing) > 0:
		return nil, fmt.Errorf("this cluster has no %s, which Everynode's manager also needs: install what is missing, and run the command again: kubectl apply --server-side%s",
			strings.Join(missing, " and no "), files(missing))
	}
	return all, nil
}

// files returns the flags with which kubectl applies Everynode's CRDs of these names.
func files(names []string) string {
	var flags strings.Builder
	for _, name := range names {
		flags.WriteString(" -f config/kruise/00-crd-" + name + ".yaml")
	}
	return flags.String()
}

// installed returns an error if the rest of Everynode is missing: without its webhooks, invalid objects could be
// written.
func (v *verb) installed(ctx context.Context, c *options.Clients) error {
	for _, hook := range ourHooks() {
		found, err := hook.get(ctx, c)
		if err != nil {
			return err
		}
		if found == nil {
			return fmt.Errorf("%s does not exist: install Everynode first, without its CRDs (config/install, config/kruise/10-rbac.yaml and 20-webhooks.yaml)", hook)
		}
	}
	return nil
}

// removeHooks removes OpenKruise's webhooks. If there is nothing to adopt, they are not touched.
func (v *verb) removeHooks(ctx context.Context, c *options.Clients, foreign bool) error {
	if !foreign {
		return nil
	}
	for _, hook := range theirHooks() {
		found, err := hook.get(ctx, c)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		err = v.do(ctx, fmt.Sprintf("%s removed, and kept in the ConfigMap %s/%s", hook, everynode.Namespace, hook.kept()), func(ctx context.Context) error {
			if err := hook.backUp(ctx, c, found, v.ServerSide()); err != nil {
				return err
			}
			return hook.remove(ctx, c, v.ServerSide())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t resourceRef) remove(ctx context.Context, c *options.Clients, dryRun []string) error {
	err := t.client(c).Delete(ctx, t.name, metav1.DeleteOptions{DryRun: dryRun})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return options.Explain(err, t.request("delete"))
}

// replace replaces a CRD by Everynode's. The conversion is unchanged until Everynode's manager sets it: an error
// is better than an object that is converted incorrectly.
func (v *verb) replace(ctx context.Context, c *options.Clients, now, next *unstructured.Unstructured) error {
	t := definitionRef(now.GetName())
	return v.do(ctx, fmt.Sprintf("%s replaced, and kept in the ConfigMap %s/%s", t, everynode.Namespace, t.kept()), func(ctx context.Context) error {
		if err := t.backUp(ctx, c, now, v.ServerSide()); err != nil {
			return err
		}
		after := now.DeepCopy()
		spec, _, err := unstructured.NestedMap(next.Object, "spec")
		if err != nil {
			return fmt.Errorf("reading %s: %w", t, err)
		}
		if conversion, found, _ := unstructured.NestedMap(now.Object, "spec", "conversion"); found {
			spec["conversion"] = conversion
		}
		after.Object["spec"] = spec
		labels := after.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[everynode.PartOf] = everynode.PartOfValue
		after.SetLabels(labels)
		return v.update(ctx, c, t, after)
	})
}

func (v *verb) update(ctx context.Context, c *options.Clients, t resourceRef, object *unstructured.Unstructured) error {
	_, err := t.client(c).Update(ctx, object, metav1.UpdateOptions{FieldManager: options.FieldManager, DryRun: v.ServerSide()})
	return options.Explain(err, t.request("update"))
}

// migrateStorage rewrites all objects in the version that Everynode stores, and updates the status of the CRDs.
func (v *verb) migrateStorage(ctx context.Context, c *options.Clients, replaced bool) error {
	if v.Dry() && replaced {
		v.printStep("all objects rewritten as %s, once Everynode's manager runs", storedVersion)
		return nil
	}
	old := 0
	for _, resource := range resources() {
		t := definition(resource)
		now, err := t.get(ctx, c)
		if err != nil {
			return err
		}
		if now == nil || slices.Equal(storedVersions(now), []string{storedVersion}) {
			continue
		}
		old++
		if v.Dry() {
			v.printStep("%s: all objects rewritten as %s", t, storedVersion)
			continue
		}
		if err := v.waitForConversion(ctx, c, t); err != nil {
			return err
		}
		if err := v.rewrite(ctx, c, t, resource); err != nil {
			return err
		}
	}
	if old == 0 && !replaced {
		v.hint("nothing to do: the CRDs are Everynode's, and all objects are stored as %s", storedVersion)
	}
	return nil
}

// pollInterval is the polling interval.
const pollInterval = 200 * time.Millisecond

// waitForConversion waits until Everynode's manager has configured its conversion webhook.
func (v *verb) waitForConversion(ctx context.Context, c *options.Clients, t resourceRef) error {
	// A request that is in flight at the timeout is not cancelled.
	err := wait.PollUntilContextTimeout(ctx, pollInterval, v.timeout, true, func(context.Context) (bool, error) {
		now, err := t.get(ctx, c)
		return now != nil && hasOurConversion(now), err
	})
	if wait.Interrupted(err) {
		return &options.Exit{Code: options.ExitUnfinished, Err: fmt.Errorf("%s is Everynode's now, but no manager has configured its conversion webhook: "+
			"start everynode-manager, and run the same command again to store objects as %s", t, storedVersion)}
	}
	return err
}

// hasOurConversion reports whether the conversion webhook is Everynode's.
func hasOurConversion(crd *unstructured.Unstructured) bool {
	const webhook = "everynode-webhook" // the name of the Service
	service, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
	url, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "url")
	return service == webhook || url != ""
}

// maxErrors is the maximum number of errors that are shown.
const maxErrors = 5

// rewrite writes every object without a change, and then removes the older version from the status of the CRD.
func (v *verb) rewrite(ctx context.Context, c *options.Clients, t resourceRef, resource string) error {
	client, count := c.Dynamic.Resource(served(resource)), 0
	var failed []error
	list := metav1.ListOptions{Limit: 500}
	for {
		objects, err := client.List(ctx, list)
		if err != nil {
			return options.Explain(err, options.Request{Verb: "list", Resource: served(resource).GroupResource()})
		}
		for i := range objects.Items {
			one := &objects.Items[i]
			_, err := client.Namespace(one.GetNamespace()).Update(ctx, one, metav1.UpdateOptions{FieldManager: options.FieldManager})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another client was faster, and its write has the new version
				failed = append(failed, fmt.Errorf("%s %s: %w", resource, strings.TrimPrefix(one.GetNamespace()+"/"+one.GetName(), "/"), err))
			}
			count++
		}
		if list.Continue = objects.GetContinue(); list.Continue == "" {
			break
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d objects of %s could not be rewritten; fix them, and run the same command again:\n%w", len(failed), count, t.name, errors.Join(failed[:min(len(failed), maxErrors)]...))
	}
	return v.do(ctx, fmt.Sprintf("%s: %d objects rewritten as %s", t, count, storedVersion), func(ctx context.Context) error {
		now, err := t.get(ctx, c)
		if err != nil || now == nil {
			return err
		}
		if err := unstructured.SetNestedStringSlice(now.Object, []string{storedVersion}, "status", "storedVersions"); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		_, err = t.client(c).UpdateStatus(ctx, now, metav1.UpdateOptions{FieldManager: options.FieldManager})
		return options.Explain(err, t.request("update"))
	})
}
