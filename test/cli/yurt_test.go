// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/test/harness"
)

// yurt-manager as OpenYurt's chart installs it.
const (
	yurtNamespace = "kube-system"
	yurtName      = "yurt-manager"
	yurtLease     = "cloud-yurt-manager"
	yurtHook      = "yurt-manager-validating-webhook-configuration"
	yurtFlag      = "--controllers=-nodelifecycle,*"
	yurtKept      = "everynode.dev/kept-controllers"
)

// What the log of Everynode's manager says of it.
const (
	yurtAtWork    = "OpenYurt's own yurt-manager is active"
	yurtNotAtWork = "OpenYurt's own yurt-manager is not active"
)

// yurt stands in for yurt-manager, as far as anybody looks at it: its Deployment, whose pods the plane makes and runs, the lease that one of them
// holds at a time, and a webhook. It does none of yurt-manager's work.
type yurt struct {
	t      *testing.T
	client kubernetes.Interface
	leader string // the name of a pod
	stop   func() // ends the elections
}

// installYurt installs it and has it elect leaders until it is removed.
func installYurt(p *person) *yurt {
	p.t.Helper()
	y := &yurt{t: p.t, client: p.s.Cluster.Client}
	labels := map[string]string{"app": yurtName}
	_, err := y.client.AppsV1().Deployments(yurtNamespace).Create(p.s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: yurtName, Annotations: map[string]string{"meta.helm.sh/release-name": "yurt"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: yurtName, Image: harness.Image, Command: []string{"/usr/local/bin/yurt-manager"}, Args: []string{"--v=4", yurtFlag},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := y.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(p.s.Context(), yurtWebhook(), metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, y.elect, time.Second)
	}()
	y.stop = func() {
		cancel()
		<-ended
	}
	p.t.Cleanup(func() { _ = y.uninstall() }) // where the test fails before it is removed
	return y
}

// yurtWebhook is about node pools, which nobody has here, and nobody answers it.
func yurtWebhook() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: yurtHook},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.apps.v1beta2.nodepool.openyurt.io", AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), FailurePolicy: new(admissionregistrationv1.Ignore),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps.openyurt.io"}, APIVersions: []string{"*"}, Resources: []string{"nodepools"}},
			}},
		}},
	}
}

// elect has the pod that leads renew the lease, or another one take it when that one goes.
func (y *yurt) elect(ctx context.Context) {
	err := y.renew(ctx)
	if err != nil && ctx.Err() == nil {
		y.t.Errorf("the stand-in for yurt-manager: %v", err)
	}
}

func (y *yurt) renew(ctx context.Context) error {
	list, err := y.client.CoreV1().Pods(yurtNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + yurtName})
	if err != nil {
		return err
	}
	able := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil || !harness.Ready(&pod) })
	if len(able) == 0 {
		return nil
	}
	if !slices.ContainsFunc(able, func(pod corev1.Pod) bool { return pod.Name == y.leader }) {
		y.leader = able[0].Name
	}
	leases := y.client.CoordinationV1().Leases(yurtNamespace)
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: new(y.leader + "_6f2c8f0e"), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NowMicro()),
	}
	lease, err := leases.Get(ctx, yurtLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: yurtLease}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// deployment is what has become of the Deployment.
func (y *yurt) deployment() *appsv1.Deployment {
	y.t.Helper()
	d, err := y.client.AppsV1().Deployments(yurtNamespace).Get(y.t.Context(), yurtName, metav1.GetOptions{})
	if err != nil {
		y.t.Fatal(err)
	}
	return d
}

// says fails unless that is the flag of the Deployment, the annotation keeps that, and all else of yurt-manager is as it was.
func (y *yurt) says(flag, kept string) {
	y.t.Helper()
	d := y.deployment()
	args := d.Spec.Template.Spec.Containers[0].Args
	if !slices.Equal(args, []string{"--v=4", flag}) || d.Annotations[yurtKept] != kept {
		y.t.Fatalf("yurt-manager has the arguments %q, and %q is kept; want %q and %q", args, d.Annotations[yurtKept], flag, kept)
	}
	hook, err := y.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(y.t.Context(), yurtHook, metav1.GetOptions{})
	if err != nil || hook.Generation != 1 {
		y.t.Fatalf("the webhook of yurt-manager was changed: %+v (%v)", hook, err)
	}
}

// remove removes it. The lease that it leaves goes with it, as if it had been given back.
func (y *yurt) remove() {
	y.t.Helper()
	if err := y.uninstall(); err != nil {
		y.t.Fatal(err)
	}
}

// uninstall is remove also when the test is over, so that a webhook is not in the way of the next one.
func (y *yurt) uninstall() error {
	y.stop()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	return errors.Join(
		y.client.AppsV1().Deployments(yurtNamespace).Delete(ctx, yurtName, metav1.DeleteOptions{}),
		y.client.CoordinationV1().Leases(yurtNamespace).Delete(ctx, yurtLease, metav1.DeleteOptions{}),
		y.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, yurtHook, metav1.DeleteOptions{}),
	)
}

// hears waits until the log of the manager says something after what it had said before.
func (p *person) hears(said int, text string) {
	p.t.Helper()
	p.s.Poll("the manager says: "+text, func() error {
		if log := p.s.Cluster.Log(harness.ManagerComponent); !strings.Contains(log[min(said, len(log)):], text) {
			return missing("it has not")
		}
		return nil
	})
}

// said is how much the manager has said so far.
func (p *person) said() int { return len(p.s.Cluster.Log(harness.ManagerComponent)) }

// takesOverOpenYurt: while a yurt-manager leads that updates DaemonSets itself, Everynode deletes no pod for the annotations. adopt has another
// one lead, which leaves that to Everynode; --back puts back what was there.
func takesOverOpenYurt(p *person) {
	p.isRefused(1, "there is no Deployment kube-system/yurt-manager", "adopt", "openyurt")
	p.s.Run(set, harness.WithOnDelete, harness.WithAnnotation("apps.openyurt.io/update-strategy", "AdvancedRollingUpdate"))
	recorder, said := p.s.Observe(set), p.said()
	y := installYurt(p)
	p.hears(said, yurtAtWork)
	if a := p.tries("doctor"); a.code != 1 || !strings.Contains(a.out, "it holds the lease "+yurtNamespace+"/"+yurtLease+", so Everynode writes nothing for the dialect openyurt") {
		p.t.Errorf("doctor ends with %d, and does not say that yurt-manager is at work", a.code)
	}
	p.s.Update(set, harness.WithImage(harness.Image2))
	p.s.Wait("the new version is known", observed)
	p.types("is the leader (server dry run)", "adopt", "openyurt", "--dry-run")
	y.says(yurtFlag, "")

	over := time.Now()
	said = p.said()
	p.types(`set controllers: "-daemonpodupdater,-nodelifecycle,*" in its values`, "adopt", "openyurt")
	y.says("--controllers=-daemonpodupdater,-nodelifecycle,*", "-nodelifecycle,*")
	p.hears(said, yurtNotAtWork)
	p.s.Wait("the update begins by itself", observed, run(harness.Image2, nodes))
	p.types("does not do the work of the dialect openyurt: its controller daemonpodupdater is off", "doctor")
	p.types("unchanged", "adopt", "openyurt")

	said = p.said()
	p.types("updates DaemonSets again when a pod with the restored flags is the leader", "adopt", "openyurt", "--back")
	y.says(yurtFlag, "")
	p.hears(said, yurtAtWork)
	back := time.Now()
	p.s.Update(set, harness.WithImage(harness.Image3))
	p.s.Wait("the next version is known", observed)
	p.isRefused(1, "there is no backup to restore", "adopt", "openyurt", "--back")

	left := time.Now()
	said = p.said()
	y.remove()
	p.hears(said, yurtNotAtWork)
	p.s.Wait("what was held follows", observed, run(harness.Image3, nodes))
	if _, err := recorder.Finish(p.s.Context()); err != nil {
		p.t.Fatal(err)
	}
	for _, event := range recorder.Log() {
		pod, is := event.Object.(*corev1.Pod)
		if is && pod.DeletionTimestamp != nil && (event.At.Before(over) || event.At.After(back) && event.At.Before(left)) {
			p.t.Errorf("pod %s was deleted while yurt-manager was at work: %s", pod.Name, event)
		}
	}
}
