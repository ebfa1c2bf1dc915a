// SPDX-License-Identifier: Apache-2.0

// Package installed reads from the Deployment of Everynode's manager how it is started, for the verbs that depend on that.
//
// Rule: it says what stands in the command line, and what holds by default. What stands in a configuration file cannot be read from here;
// the flag config tells that there is one.
package installed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/dialects"
)

// Manager is the name of the Deployment of the manager, of its service account and of its lease.
const Manager = "everynode-manager"

// Flags are the flags of the container of the manager, without their dashes.
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

// Dialects are those that the flags name, or those by default.
func Dialects(flags map[string]string) []string {
	if names := flags["dialects"]; names != "" {
		return strings.Split(names, ",")
	}
	return dialects.Defaults()
}

// Unread says of a DaemonSet with OpenYurt's annotation that the manager does not read it; empty where it does, and where nobody can tell: there is no
// Deployment of the manager, or it may not be read.
func Unread(ctx context.Context, c kubernetes.Interface, set *unstructured.Unstructured) string {
	if _, asked := set.GetAnnotations()[openyurt.UpdateStrategy]; !asked || set.GetAPIVersion() != appsv1.SchemeGroupVersion.String() {
		return ""
	}
	manager, err := c.AppsV1().Deployments(everynode.Namespace).Get(ctx, Manager, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	flags := Flags(manager)
	served := Dialects(flags)
	inFile := flags["dialects"] == "" && flags["config"] != ""
	if inFile || slices.Contains(served, dialects.OpenYurt) {
		return ""
	}
	return fmt.Sprintf("%s serves %s, and so does not read the annotation %s: the output applies when %s is one of its --dialects (dialects in the values of the chart); until then old pods "+
		"are left to OpenYurt's own controller, or stay until they are deleted", Manager, strings.Join(served, ", "), openyurt.UpdateStrategy, dialects.OpenYurt)
}
