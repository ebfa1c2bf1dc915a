// SPDX-License-Identifier: Apache-2.0

// Package peers determines how managers of other projects, which do the work of one of our dialects, are started. The manager uses it to write nothing while
// such a manager is active, and the command line to report it.
package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/internal/dialect"
)

// FlagControllers is the flag that lists which controllers of a manager run.
const FlagControllers = "--controllers"

// Controllers are the words of the flag in a command line, in their order.
func Controllers(line []string) []string {
	var words []string
	for i, word := range line {
		value, given := strings.CutPrefix(word, FlagControllers+"=")
		if !given && word == FlagControllers && i+1 < len(line) {
			value, given = line[i+1], true
		}
		if given {
			words = append(words, strings.Split(value, ",")...)
		}
	}
	return words
}

// Off reports whether these words disable a controller, which may have several names: the first word that
// names it counts, as in kube-controller-manager. There, a list without * also disables controllers that it
// does not name. Here the controller must be named, because a word that is misread must not lead to two
// active controllers.
func Off(words, names []string) bool {
	for _, word := range words {
		if name, minus := strings.CutPrefix(word, "-"); slices.Contains(names, name) {
			return minus
		}
	}
	return false
}

// SwitchedOff reports whether the holder of the lease runs without the controller of the dialect, according
// to the flags of its pod, which cannot change while it runs. A holder without a pod of that name counts as
// active: the flags of a Deployment prove nothing about pods that were created before its last change.
func SwitchedOff(ctx context.Context, client kubernetes.Interface, m *dialect.Peer, holder string) (bool, error) {
	host, _, _ := strings.Cut(holder, "_") // HOST_UUID, as controller-runtime writes it
	if len(m.Controller) == 0 || host == "" {
		return false, nil
	}
	pod, err := client.CoreV1().Pods(m.Namespace).Get(ctx, host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the pod %s/%s, which holds a lease of %s: %w", m.Namespace, host, m.Name, err)
	}
	return !pod.Spec.HostNetwork && runsWithout(&pod.Spec, m.Controller), nil // on the network of its node the host is the node
}

// runsWithout reports whether the flags of a container disable the controller, and those of no container enable it.
func runsWithout(spec *corev1.PodSpec, names []string) bool {
	told := false
	for i := range spec.Containers {
		c := &spec.Containers[i]
		words := Controllers(slices.Concat(c.Command, c.Args))
		if len(words) == 0 {
			continue
		}
		if !Off(words, names) {
			return false
		}
		told = true
	}
	return told
}
