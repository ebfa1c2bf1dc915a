// SPDX-License-Identifier: Apache-2.0

// Package approve implements the commands that decide about a rollout under a RolloutPolicy: approve, promote, reject and retry, and undo
// --to-committed.
//
// Each command creates one RolloutApproval, for the revision and the wave that the status of the policy shows. The manager decides what follows.
//
// Rule: a decision that would have no effect is refused with a remedy. spec.by is the name under which the API server knows the user, so that the admission
// policy for approvals accepts it.
package approve

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/change"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
)

// Commands returns the commands.
func Commands(o *options.Options) []*cobra.Command {
	return []*cobra.Command{newApprove(o), newPromote(o), newReject(o), newRetry(o)}
}

const common = "\n\nIt creates a RolloutApproval for the revision that the rollout is active for, with your name in spec.by. It counts for this rollout only.\n" +
	"Creating it needs a right of its own, which the ClusterRole " + approver + " gives.\n" +
	"NAME is the daemon set (daemonset/NAME, or ads/NAME for an Advanced DaemonSet), or rolloutpolicy/NAME for a policy that applies to one daemon set only."

// approver is the role with the right to create approvals. It must be bound to users explicitly.
const approver = "everynode-approver"

func newApprove(o *options.Options) *cobra.Command {
	v := &verb{Options: o, decision: v1alpha1.Approve}
	c := v.command(&cobra.Command{
		Use:   "approve NAME",
		Short: "Approve a wave of a rollout, so that the next wave may begin",
		Long: "Approve a wave of a rollout, so that the next wave may begin. Without --wave, it is the wave that waits for an approval. With --wave, a wave can\n" +
			"be approved before it is complete: its soak is still observed." + common,
		Example: "  # Approve the wave that waits\n  kubectl everynode approve ads/agent\n\n" +
			"  # Approve the wave canary in advance, with a reason\n  kubectl everynode approve ads/agent --wave canary --reason 'dashboards are fine'\n\n" +
			"  # Only check whether that is possible\n  kubectl everynode approve ads/agent --dry-run",
	})
	v.addWave(c)
	return c
}

func newPromote(o *options.Options) *cobra.Command {
	v := &verb{Options: o, decision: v1alpha1.Promote}
	c := v.command(&cobra.Command{
		Use:   "promote NAME",
		Short: "End the soak of a wave now",
		Long: "End the soak of a wave now. Without --wave, it is the wave that soaks. The wave must still be complete and available, and if it needs an approval,\n" +
			"it still waits for that. If all nodes of the wave are gone that had the revision, or all of the wave,\n" +
			"of a growth step or of a zone are left out, the rollout goes on without them." + common,
		Example: "  # Do not wait for the end of the soak\n  kubectl everynode promote ads/agent --reason 'urgent fix'",
	})
	v.addWave(c)
	return c
}

func newReject(o *options.Options) *cobra.Command {
	v := &verb{Options: o, decision: v1alpha1.Reject}
	return v.command(&cobra.Command{
		Use:   "reject NAME",
		Short: "Reject the revision of a rollout, so that no further node gets it",
		Long: "Reject the revision of a rollout, so that no further node gets it. Nodes that have it keep it. To continue, change the template of the set\n" +
			"(for example with " + options.Program + " undo), or delete the RolloutApproval." + common,
		Example: "  # Stop the rollout of a bad version, and return to the one before it\n" +
			"  kubectl everynode reject ads/agent --reason 'the agent leaks memory'\n  kubectl everynode undo ads/agent",
	})
}

// verb is one of the commands.
type verb struct {
	*options.Options
	change.Flags
	decision     v1alpha1.Decision
	wave, reason string
	// revision is the revision that the user means; empty for the one that is rolled out now.
	revision string
}

// command completes a cobra command.
func (v *verb) command(c *cobra.Command) *cobra.Command {
	c.Long += "\n\n" + options.ExitText
	c.Args = options.Arguments(1, policies.Argument("NAME"))
	c.ValidArgsFunction = policies.Complete(v.Options)
	c.RunE = func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) }
	c.Flags().StringVar(&v.reason, "reason", "", "Why, for other people.")
	noFiles(c, "reason", cobra.NoFileCompletions)
	c.Flags().StringVar(&v.revision, "revision", "", "Do nothing if the rollout is of another revision than this one by now.")
	noFiles(c, "revision", cobra.NoFileCompletions)
	v.AddDryRun(c)
	return c
}

// addWave adds the flag --wave.
func (v *verb) addWave(c *cobra.Command) {
	c.Flags().StringVar(&v.wave, "wave", "", "The wave (default: the one that waits).")
	noFiles(c, "wave", func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return v.waves(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	})
}

func noFiles(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist: every test that creates a command finds this
	}
}

// waves returns the waves of the policy of the set in the arguments, for completion.
func (v *verb) waves(ctx context.Context, args []string) []string {
	c, err := v.Clients()
	if err != nil || len(args) == 0 {
		return nil
	}
	set, err := setOf(ctx, c, args[0])
	if err != nil {
		return nil
	}
	p, err := policies.One(ctx, c, set)
	if err != nil {
		return nil
	}
	var names []string
	for i := range p.Typed.Spec.Waves {
		names = append(names, p.Typed.Spec.Waves[i].Name)
	}
	return names
}

// longestReason is the longest reason that the API accepts.
const longestReason = 1024

func (v *verb) run(ctx context.Context, arg string) error {
	if err := v.Flags.Validate(); err != nil {
		return err
	}
	if len(v.reason) > longestReason {
		return options.Usagef("--reason has %d characters: write at most %d", len(v.reason), longestReason)
	}
	c, err := v.Clients()
	if err != nil {
		return err
	}
	set, err := setOf(ctx, c, arg)
	if err != nil {
		return err
	}
	p, err := policies.One(ctx, c, set)
	if err != nil {
		return err
	}
	s, err := v.situation(ctx, c, set, p)
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	v.Exactly("revision", s.status.TargetRevision)
	v.Exactly("wave", s.wave)
	return v.create(ctx, c, s)
}

// setOf returns the set that arg names, or the only set of the policy that it names.
func setOf(ctx context.Context, c *options.Clients, arg string) (*resolver.Set, error) {
	p, set, err := policies.Find(ctx, c, arg)
	if err != nil || p == nil {
		return set, err //nolint:wrapcheck // it names the set or the policy
	}
	name, err := p.OnlySet()
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the policy
	}
	return resolver.FindToChange(ctx, c, name) //nolint:wrapcheck // it names the set
}

// create creates the approval, and prints it.
func (v *verb) create(ctx context.Context, c *options.Clients, s *situation) error {
	wanted := &v1alpha1.RolloutApproval{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "RolloutApproval"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace(), GenerateName: s.base()},
		Spec: v1alpha1.RolloutApprovalSpec{
			Policy: s.policy.Typed.Name, Set: s.set.Name(), Wave: s.wave, Revision: s.status.TargetRevision, Decision: v.decision,
			By: userName(ctx, c), Reason: v.reason,
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("encoding the approval: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	if v.DryRun != change.DryRunClient {
		how := metav1.CreateOptions{FieldManager: options.FieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: v.ServerSide()}
		object, err = c.Dynamic.Resource(policies.ApprovalResource()).Namespace(s.set.Namespace()).Create(ctx, object, how)
		if err != nil {
			return explain(err, s.set.Namespace())
		}
	}
	object.SetManagedFields(nil)
	err = v.Print(object.Object, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, options.Printable(s.done(object)+v.Suffix()))
		return err
	})
	if err == nil {
		s.notes()
	}
	return err
}

// userName returns the name under which the API server knows the user; empty if that is not known, for example because the user is not authenticated.
func userName(ctx context.Context, c *options.Clients) string {
	review, err := c.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review == nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// base is the beginning of the name of the approval; the API server adds the rest.
func (s *situation) base() string {
	parts := []string{s.set.Name()}
	if s.wave != "" {
		parts = append(parts, s.wave)
	}
	return strings.Join(append(parts, strings.ToLower(string(s.decision))), "-") + "-"
}
