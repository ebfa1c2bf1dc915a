// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/ota"
	"everynode.dev/everynode/internal/rollout"
)

// ask adds the information of the pods: why they are not ready, why they are not deleted, and what holds them.
func (s *subject) ask(ctx context.Context, c *options.Clients, e *Explanation) {
	hook, err := inspect.HookOf(s.m.Set)
	if err != nil {
		e.Notes = append(e.Notes, err.Error())
	}
	for i := range e.Pods {
		pod, err := c.Kubernetes.CoreV1().Pods(e.Namespace).Get(ctx, e.Pods[i].Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			e.Pods[i].Says = []string{"it no longer exists"}
			continue
		case err != nil:
			err = options.Explain(err, options.Request{Verb: "get", Resource: corev1.Resource("pods"), Namespace: e.Namespace, Name: e.Pods[i].Name})
			e.Notes = append(e.Notes, err.Error())
			continue
		}
		e.Pods[i].Says = saysOf(pod)
		if hold := inspect.HoldOf(hook, pod); s.verdict().Kind == rollout.WaitHook && !hold.Empty() {
			e.Values = append([]Value{{"hook", fmt.Sprintf("pod %s is held by %s", pod.Name, hold)}}, e.Values...)
		}
	}
}

// saysOf returns the messages in a pod's status that explain why it is not ready, or not deleted.
func saysOf(pod *corev1.Pod) []string {
	var says []string
	if pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 {
		says = append(says, "it waits for the finalizers "+strings.Join(pod.Finalizers, ", "))
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == openyurt.PodNeedUpgrade { // False is the usual state, and its message only has the revision
			if next, old, _ := ota.Announced(pod); old {
				says = append(says, strings.TrimSpace("a newer revision is announced to it: "+next))
			}
			continue
		}
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			says = append(says, string(c.Type)+": "+c.Message)
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if text := containerSays(&status); text != "" {
			says = append(says, text)
		}
	}
	return says
}

// containerSays returns why a container does not run, or "" if it runs or has completed.
func containerSays(c *corev1.ContainerStatus) string {
	waiting, terminated := c.State.Waiting, c.State.Terminated
	text := ""
	switch {
	case waiting != nil:
		text = fmt.Sprintf("container %s waits: %s", c.Name, colon(waiting.Reason, waiting.Message))
	case terminated != nil && terminated.ExitCode != 0:
		text = fmt.Sprintf("container %s ended with code %d: %s", c.Name, terminated.ExitCode, colon(terminated.Reason, terminated.Message))
	default:
		return ""
	}
	if c.RestartCount > 0 {
		text += fmt.Sprintf(" (restarted %s)", view.Plural(int(c.RestartCount), "time"))
	}
	return text
}

func colon(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// table prints an explanation for users.
func table(w io.Writer, o *options.Options, e *Explanation) error {
	title := options.Printable(fmt.Sprintf("%s, %s/%s: %s", e.Node, e.Namespace, e.Set, e.Verdict))
	if o.Colour() {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n\n", title, options.Printable(e.Reason)); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	rows := [][]string{{"placement", e.Placement}}
	for _, r := range e.Rules {
		mark := "+ "
		if r.Against {
			mark = "- "
		}
		rows = append(rows, []string{"", mark + r.Rule + ": " + r.Says})
	}
	rows = append(rows, []string{"node", e.Condition}, []string{"wanted", "revision " + e.Wanted})
	for i := range e.Pods {
		rows = append(rows, podRows(&e.Pods[i])...)
	}
	if len(e.Pods) == 0 {
		rows = append(rows, []string{"pod", "none"})
	}
	for _, v := range e.Values {
		rows = append(rows, []string{v.Name, v.Says})
	}
	rows = append(rows, present("next", e.Next)...)
	rows = append(rows, present("to do", e.Remedy)...)
	for _, p := range e.Problems {
		rows = append(rows, []string{"problem", p})
	}
	for _, v := range e.Warnings {
		rows = append(rows, []string{"warning", fmt.Sprintf("%s ago: %s", view.Duration(o.Now().Sub(v.Last)), v)})
	}
	for _, n := range e.Notes {
		rows = append(rows, []string{"note", n})
	}
	return options.Columns(w, rows)
}

// present returns a row if text is not empty.
func present(name, text string) [][]string {
	if text == "" {
		return nil
	}
	return [][]string{{name, text}}
}

func podRows(p *Pod) [][]string {
	which := "old"
	if p.Wanted {
		which = "wanted"
	}
	rows := [][]string{{"pod", fmt.Sprintf("%s: revision %s, the %s one; %s", p.Name, p.Revision, which, p.State)}}
	for _, text := range p.Says {
		rows = append(rows, []string{"", "  " + text})
	}
	return rows
}
