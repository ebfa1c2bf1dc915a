// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

func TestWrongCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"frobnicate":      `there is no command "frobnicate": see kubectl everynode --help`,
		"pln":             `there is no command "pln": did you mean plan?`,
		"statsu":          `there is no command "statsu": did you mean status?`,
		"pasue":           `there is no command "pasue": did you mean pause?`,
		"versio":          `there is no command "versio": did you mean version?`,
		"version x":       `version takes no arguments, but got "x": see kubectl everynode version --help`,
		"apply plan.json": `apply takes no arguments, but got "plan.json": see kubectl everynode apply --help`,
		"status":          `status needs NAME, the name of a daemon set, or rolloutpolicy/NAME: see kubectl everynode status --help`,
		"status a b":      `status takes at most NAME, but also got "b": see kubectl everynode status --help`,
		"explain-node":    `explain-node needs NODE, the name of a node: see kubectl everynode explain-node --help`,
		"diff a":          `diff needs REV1, the number, hash or name of a revision, or now: see kubectl everynode diff --help`,
		"diff a 1 2 3":    `diff takes at most NAME REV1 REV2, but also got "3": see kubectl everynode diff --help`,
		"set-image a":     `set-image needs CONTAINER=IMAGE..., a container and its new image: see kubectl everynode set-image --help`,
		"ota what":        `ota has no subcommand "what": it has list, pull, upgrade: see kubectl everynode ota --help`,
		"adopt x":         `adopt has no subcommand "x": it has openyurt: see kubectl everynode adopt --help`,
		"completion tcsh": `completion knows no shell "tcsh": it knows bash, fish, powershell, zsh: see kubectl everynode completion --help`,
		"help frobnicate": `there is no command "frobnicate": see kubectl everynode --help`,
		"help pln":        `there is no command "pln": did you mean plan?`,
		"help ota what":   `ota has no subcommand "what": see kubectl everynode help --help`,
		"status /x":       `"/x" does not name a daemon set: write NAME, daemonset/NAME or ads/NAME`,
		"version --x":     "unknown flag: --x",
		"version -o html": `--output "html" is not known: write one of table, wide, json, yaml`,

		"migrate a --timeout -1s":              "--timeout -1s is negative: use a duration such as 10m",
		"adopt --timeout -1s":                  "--timeout -1s is negative: use a duration such as 10m",
		"status a --exit-status --timeout -1s": "--timeout -1s is negative: use a duration such as 10m",
	} {
		err := fakecluster.New(t).Run(t, command.Root, strings.Fields(line)...)
		if options.Code(err) != options.ExitUsage || err.Error() != want {
			t.Errorf("%s: %v (code %d), want %s", line, err, options.Code(err), want)
		}
	}
}

// The shells that are known get a script; without one it is said which there are. None of it is a verb that pages tell of.
func TestCompletionScripts(t *testing.T) {
	for line, want := range map[string]string{
		"completion":      "powershell",
		"completion bash": "__start_kubectl-everynode",
		"completion zsh":  "#compdef kubectl-everynode",
	} {
		cluster := fakecluster.New(t)
		if err := cluster.Run(t, command.Root, strings.Fields(line)...); err != nil || !strings.Contains(cluster.Out.String(), want) {
			t.Errorf("%s: %v, it prints %q", line, err, cluster.Out.String())
		}
	}
	if got, want := scriptOfKubectl(t, "status", "-n", "a b"), "__complete\nstatus\n-n\na b\n"; got != want {
		t.Errorf("the script that kubectl calls asks for %q, want %q", got, want)
	}
	for _, verb := range command.Verbs() {
		if strings.Contains(verb.CommandPath(), "completion") {
			t.Errorf("%s is among the verbs", verb.CommandPath())
		}
	}
}

// scriptOfKubectl runs what kubectl runs to complete a word, with a program in its PATH that prints its arguments.
func scriptOfKubectl(t *testing.T, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("../../../cmd/kubectl-everynode/kubectl_complete-everynode")
	if err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, command.FileName), []byte("#!"+shell+"\nprintf '%s\\n' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(shell, append([]string{script}, args...)...)
	run.Env = []string{"PATH=" + dir}
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A name that cannot be one is told before it is known whether there is a cluster.
func TestMalformedNamesNeedNoCluster(t *testing.T) {
	for _, line := range []string{
		"plan a/b/c", "status a/b/c", "explain-node n1 a/b/c", "history a/b/c", "diff a/b/c 1", "images a/b/c", "migrate a/b/c", "pause a/b/c",
		"canary a/b/c x=y", "canary a/b/c --off",
	} {
		cluster := fakecluster.New(t)
		cluster.Options.Given = nil
		err := cluster.Run(t, command.Root, append(strings.Fields(line), "--kubeconfig", filepath.Join(t.TempDir(), "none"))...)
		if want := `"a/b/c" does not name a daemon set: write NAME, daemonset/NAME or ads/NAME`; options.Code(err) != options.ExitUsage || err.Error() != want {
			t.Errorf("%s: %v (code %d), want %s", line, err, options.Code(err), want)
		}
	}
}

// Every verb says what it is for, with an example that begins with the program, and what it returns to the shell.
func TestHelpOfEveryVerb(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && (cmd.Short == "" || !strings.Contains(cmd.Long, options.ExitText) || !strings.Contains(cmd.Example, options.Program+" ")) {
			t.Errorf("%s has no complete help", cmd.CommandPath())
		}
		if _, after, _ := strings.Cut(cmd.Long, options.ExitText); after != "" && !strings.Contains(after, "exit") {
			t.Errorf("the help of %s has something else after the exit codes: %s", cmd.CommandPath(), after)
		}
		for _, line := range strings.Split(cmd.Example, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, options.Program) && !strings.HasPrefix(line, "kubectl ") {
				t.Errorf("%s has an example that is no command: %s", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				visit(sub)
			}
		}
	}
	visit(command.Root(fakecluster.New(t).Options))
}

// The help of what there is, is told.
func TestHelpOfAVerb(t *testing.T) {
	for line, want := range map[string]string{"help": "Usage:", "help plan": "plan (NAME | -f FILE)", "help ota list": "ota list [daemonset/NAME"} {
		cluster := fakecluster.New(t)
		if err := cluster.Run(t, command.Root, strings.Fields(line)...); err != nil || !strings.Contains(cluster.Out.String(), want) {
			t.Errorf("%s: %v, it prints %q", line, err, cluster.Out.String())
		}
	}
}

func TestVersion(t *testing.T) {
	cluster := fakecluster.New(t)
	if err := cluster.Run(t, command.Root, "version"); err != nil {
		t.Fatal(err)
	}
	if got, want := cluster.Out.String(), "kubectl everynode   v0.0.0-test\nKubernetes          v1.37.1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What names a cluster and a namespace is completed as well: by the cluster, and by the kubeconfig.
func TestCompletionOfClusterAndNamespace(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncontexts: [{name: shop, context: {cluster: a}}, {name: edge, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: \"https://a.example\"}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"status -n ":          "default shop",
		"status --namespace=": "default shop",
		"status --context ":   "edge shop",
		"pause --context=":    "edge shop",
		"ota list -o ":        "table wide json yaml",
	} {
		cluster := fakecluster.New(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		args := append([]string{"__complete", "--kubeconfig", config}, strings.Split(line, " ")...)
		if err := cluster.Run(t, command.Root, args...); err != nil {
			t.Fatal(err)
		}
		words := slices.DeleteFunc(strings.Fields(cluster.Out.String()), func(word string) bool { return strings.HasPrefix(word, ":") })
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A shell that completes a word is not held up for ever by a cluster that gives no answer.
func TestCompletionIsNotForEver(t *testing.T) {
	for line, want := range map[string]string{
		"version":                                   "0",
		"__complete version -":                      "5s",
		"__completeNoDesc version -":                "5s",
		"__complete version --request-timeout=1s":   "5s",
		"__complete version --request-timeout=1s -": "1s",
	} {
		cluster := fakecluster.New(t)
		if err := cluster.Run(t, command.Root, strings.Fields(line)...); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := *cluster.Options.ConfigFlags.Timeout; got != want {
			t.Errorf("%s: requests may take %s, want %s", line, got, want)
		}
	}
}

// TestEarlierNames: a verb that was renamed still works under its earlier name, with a warning that is not part of its output.
func TestEarlierNames(t *testing.T) {
	for line, want := range map[string]string{
		"delete-hook list --help": "",
		"delete-hook list":        "Note: delete-hook is deprecated and will be removed in a later release: use pre-delete\n",
		"take-over openyurt x":    "",
	} {
		cluster := fakecluster.New(t)
		err := cluster.Run(t, command.Root, strings.Fields(line)...)
		if code := options.Code(err); code == options.ExitUsage && want != "" || cluster.Err.String() != want || strings.Contains(cluster.Out.String(), "deprecated") {
			t.Errorf("%s: %v, prints %q and on stderr %q, want %q", line, err, cluster.Out.String(), cluster.Err.String(), want)
		}
	}
	for _, verb := range command.Verbs() {
		if strings.Contains(verb.CommandPath(), "delete-hook") || strings.Contains(verb.CommandPath(), "take-over") {
			t.Errorf("%s is listed: an earlier name is for those who have it in a script", verb.CommandPath())
		}
	}
}
