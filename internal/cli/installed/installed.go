// SPDX-License-Identifier: Apache-2.0

// Package installed reads the settings of Everynode's manager from its Deployment, for the commands that depend on
// them.
//
// Rule: it uses the command line and the defaults. A configuration file cannot be read; the flag config shows that
// there is one.
package installed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/features"
)

// kubeControllerManager is the field manager of the controllers of Kubernetes.
const kubeControllerManager = "kube-controller-manager"

// Manager is the name of the Deployment of the manager, and also of its service account and of its lease.
const Manager = "everynode-manager"

// Flags returns the flags of the container of the manager, without dashes.
func Flags(d *appsv1.Deployment) map[string]string {
	flags := map[string]string{}
	for i := range d.Spec.Template.Spec.Containers {
		container := &d.Spec.Template.Spec.Containers[i]
		words := slices.Concat(container.Command, container.Args)
		for at, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			if !isFlag {
				continue
			}
			name, value, given := strings.Cut(name, "=")
			if !given && at+1 < len(words) && !strings.HasPrefix(words[at+1], "-") {
				value = words[at+1]
			}
			flags[name] = value
		}
	}
	return flags
}

// Read returns the flags of the manager in the cluster; they are not known if there is no Deployment of it, or that cannot be read.
func Read(ctx context.Context, c kubernetes.Interface) (flags map[string]string, known bool) {
	manager, err := c.AppsV1().Deployments(everynode.Namespace).Get(ctx, Manager, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	return Flags(manager), true
}

// Dialects returns the dialects of the flags, or the default.
func Dialects(flags map[string]string) []string {
	if names := flags["dialects"]; names != "" {
		return strings.Split(names, ",")
	}
	return dialects.Defaults()
}

// served returns the dialects of the manager; none if they are not known: there is no Deployment of it, that cannot be read, or they are in a file.
func served(ctx context.Context, c kubernetes.Interface) []string {
	flags, known := Read(ctx, c)
	if !known || flags["dialects"] == "" && flags["config"] != "" {
		return nil
	}
	return Dialects(flags)
}

// PoliciesAlone reports whether the manager follows policies of DaemonSets of apps/v1 while another controller keeps their pods, and whether that is known.
func PoliciesAlone(ctx context.Context, c kubernetes.Interface) (alone, known bool) {
	served := served(ctx, c)
	return slices.Contains(served, dialects.Policy) && !slices.Contains(served, dialects.Native), len(served) > 0
}

// KeptByKubernetes reports whether the controller of Kubernetes keeps the pods of a daemon set, and not Everynode, and whether that is known: the one that keeps them has
// written its status last.
func KeptByKubernetes(set *unstructured.Unstructured) (kept, known bool) {
	var last time.Time
	for _, entry := range set.GetManagedFields() {
		theirs := entry.Manager == kubeControllerManager
		if entry.Subresource != "status" || entry.Time == nil || entry.Time.Time.Before(last) || !theirs && entry.Manager != base.FieldManager {
			continue
		}
		last, kept, known = entry.Time.Time, theirs, true
	}
	return kept, known
}

// Recreates reports whether the manager is known to recreate pods whose resources change, because the feature that changes them in place is off.
func Recreates(ctx context.Context, c kubernetes.Interface) bool {
	flags, known := Read(ctx, c)
	gates, err := features.New()
	if !known || err != nil {
		return false
	}
	// What the manager refuses to start with decides nothing.
	_ = gates.Set(flags["feature-gates"])
	return !gates.Enabled(features.InPlaceWorkloadVerticalScaling)
}

// Unserved says what a plan assumes if PoliciesAlone is not known.
func Unserved() string {
	return fmt.Sprintf("it is not known which dialects the manager serves, because the Deployment %s in the namespace %s does not show it, or cannot be read: "+
		"the plan assumes the dialect %s next to the controller of Kubernetes; with the dialect %s, only users update a DaemonSet with OnDelete",
		Manager, everynode.Namespace, dialects.Policy, dialects.Native)
}

// Unread returns a warning if the manager does not read the OpenYurt annotation of a DaemonSet. It returns "" if it
// does, or if that is unknown: there is no Deployment of the manager, or it cannot be read.
func Unread(ctx context.Context, c kubernetes.Interface, set *unstructured.Unstructured) string {
	if _, asked := set.GetAnnotations()[openyurt.UpdateStrategy]; !asked || set.GetAPIVersion() != appsv1.SchemeGroupVersion.String() {
		return ""
	}
	served := served(ctx, c)
	if len(served) == 0 || slices.Contains(served, dialects.OpenYurt) {
		return ""
	}
	return fmt.Sprintf("%s serves %s, and so does not read the annotation %s: the output applies when %s is one of its --dialects (dialects in the values of the chart); until then old pods "+
		"are left to OpenYurt's own controller, or stay until they are deleted", Manager, strings.Join(served, ", "), openyurt.UpdateStrategy, dialects.OpenYurt)
}
