// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"everynode.dev/everynode/internal/cli/edit"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/plan"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialects"
)

// verb describes a verb of the plugin that the page can use.
type verb struct {
	// command are the words of the verb, if it has another name on the page, with flags that it always has.
	command []string
	// flags are those that a request may give, and arguments the number of arguments after the set.
	flags     []string
	arguments int
	// reads reports whether the verb changes nothing. Then its output is JSON.
	reads bool
	// simulates reports whether the verb needs a place: it reads all nodes and pods, or makes a plan, which takes as much memory and time as applying one.
	simulates bool
	// planned reports whether the command applies the plan in the request. Then flags are the flags of the command plan.
	planned bool
	// exact are the flags that a trial returns, and that its confirmation must have: it does what was shown, or fails.
	exact []string
	// right is the permission that the user needs; empty for reading.
	right string
}

// The rights that verbs need.
const (
	changeSet    = "set"
	changePolicy = "change-policy"
	createPolicy = "create-policy"
	decide       = "approval"
	changePod    = "pod"
)

// planFlags are the flags with which the page makes plans.
func planFlags() []string {
	return []string{plan.ImageFlag, "partition", "selector", "max-unavailable", "paused", policyFlag}
}

const (
	// policyFlag has a rollout policy as text: the verb reads it from its standard input.
	policyFlag = plan.PolicyFlag
	// offFlag ends a canary, in place of a selector.
	offFlag = "off"
	// undoToCommitted returns nodes to the committed revision, and keeps the template.
	undoToCommitted = "undo-to-committed"
	// allFlag releases all pods that wait for a hook, in place of those on a node.
	allFlag = "all"
)

// offered are the verbs that the page can use.
func offered() map[string]verb {
	return map[string]verb{
		"plan":          {flags: planFlags(), reads: true, simulates: true},
		"apply":         {flags: planFlags(), planned: true, right: changeSet},
		"explain-node":  {reads: true, simulates: true},
		"diff":          {arguments: 2, reads: true},
		"pause":         {right: changeSet},
		"resume":        {flags: []string{options.ObjectsFlag}, exact: []string{options.ObjectsFlag}, right: changeSet},
		"set-image":     {arguments: 1, right: changeSet},
		"partition":     {arguments: 1, right: changeSet},
		"canary":        {flags: []string{offFlag}, arguments: 1, right: changeSet},
		"restart":       {right: changeSet},
		"suspend":       {flags: []string{options.ObjectsFlag}, exact: []string{options.ObjectsFlag}, right: changePolicy},
		"release":       {command: []string{"pre-delete", "release"}, flags: []string{allFlag, edit.PodsFlag}, exact: []string{edit.PodsFlag}, right: changePod},
		"undo":          {flags: []string{"to-revision"}, exact: []string{"to-revision"}, right: changeSet},
		undoToCommitted: {command: []string{"undo", "--to-committed"}, flags: []string{"revision", "reason"}, exact: []string{"revision"}, right: decide},
		"approve":       {flags: []string{"wave", "revision", "reason"}, exact: []string{"revision", "wave"}, right: decide},
		"promote":       {flags: []string{"wave", "revision", "reason"}, exact: []string{"revision", "wave"}, right: decide},
		"reject":        {flags: []string{"revision", "reason"}, exact: []string{"revision"}, right: decide},
		"retry":         {flags: []string{"revision", "reason"}, exact: []string{"revision"}, right: decide},
	}
}

// request is a verb with what it is about.
type request struct {
	Verb      string   `json:"verb"`
	Namespace string   `json:"namespace"`
	Set       string   `json:"set"`
	Node      string   `json:"node,omitempty"`
	Arguments []string `json:"arguments,omitempty"`
	// Flags have one value each; that of image has one image on each line.
	Flags map[string]string `json:"flags,omitempty"`
	// DryRun reports whether the API server only checks the change.
	DryRun bool `json:"dryRun,omitempty"`
	// Plan is the plan to apply.
	Plan *plan.Document `json:"plan,omitempty"`
	// connection has the flags for the cluster.
	connection []string
}

// outcome is the output of a command.
type outcome struct {
	// Line is the command for a shell.
	Line   string          `json:"line"`
	Output string          `json:"output,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	// Exact are the flags of a confirmation, after a trial.
	Exact map[string]string `json:"exact,omitempty"`
	Notes string            `json:"notes,omitempty"`
	Error string            `json:"error,omitempty"`
	// Stale lists the changes since the plan was made, because of which it was not applied.
	Stale []string `json:"stale,omitempty"`
}

// check returns an error for a request that the verb is not offered for.
func (r *request) check(v verb) error {
	wanted, all := v.arguments, r.has(allFlag)
	if r.has(offFlag) {
		wanted = 0
	}
	switch {
	case len(r.Arguments) != wanted:
		return options.Usagef("%s takes %d arguments after the set", r.Verb, wanted)
	case v.reads && r.DryRun:
		return options.Usagef("%s changes nothing", r.Verb)
	case (r.Node != "") != (r.Verb == "explain-node" || r.Verb == "release" && !all):
		return options.Usagef("a node is named for explain-node and release only")
	case (r.Plan != nil) != v.planned:
		return options.Usagef("a plan is sent for apply only")
	default:
		return r.checkExact(v)
	}
}

func (r *request) has(flag string) bool {
	_, has := r.Flags[flag]
	return has
}

// arguments returns the command line of a request, without the program: first the words of the verb, then two dashes or flags.
func (r *request) arguments() (words, args []string, err error) {
	v, known := offered()[r.Verb]
	if !known {
		return nil, nil, options.Usagef("the dashboard does not offer the command %q", r.Verb)
	}
	if err := r.check(v); err != nil {
		return nil, nil, err
	}
	if words = v.command; words == nil {
		words = []string{r.Verb}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		switch {
		case !slices.Contains(v.flags, name):
			return nil, nil, options.Usagef("the dashboard does not offer --%s of %s", name, r.Verb)
		case name == options.ObjectsFlag: // the command line has no such flag: play checks it
		case name == edit.PodsFlag, name == allFlag && r.has(edit.PodsFlag): // they are arguments
		case v.planned && name == policyFlag:
			args = append(args, "--with-policy")
		case v.planned:
		case name == policyFlag:
			args = append(args, "--policy=-")
		default:
			for _, value := range plan.ValuesOf(name, r.Flags[name]) {
				args = append(args, "--"+name+"="+value)
			}
		}
	}
	if r.DryRun {
		args = append(args, "--dry-run=server")
	}
	if v.planned {
		return words, append(args, "--plan=-"), nil
	}
	// What follows two dashes is never a flag.
	args = append(args, "--")
	switch {
	case r.has(edit.PodsFlag):
		args = append(args, r.pods()...)
	case r.Node != "" && r.Verb == "release":
		args = append(args, "node/"+r.Node)
	case r.Node != "":
		args = append(args, r.Node)
	}
	return words, append(append(args, r.Set), r.Arguments...), nil
}

// line returns the command line for a shell.
func (r *request) line(verb, args []string) string {
	words := append(append([]string{options.Program}, verb...), "-n", quote(r.Namespace))
	for _, flag := range r.connection {
		words = append(words, quote(flag))
	}
	for _, word := range args {
		switch word {
		case "--":
		case "--plan=-":
			words = append(words, "--plan=plan.json") // as which the page saves it
		case "--policy=-":
			words = append(words, "--policy=policy.yaml") // likewise
		case "--off=true", "--all=true":
			words = append(words, strings.TrimSuffix(word, "=true"))
		default:
			words = append(words, quote(word))
		}
	}
	return strings.Join(words, " ")
}

// quote quotes a word for a shell, if it needs that.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	switch {
	case word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0:
		return word
	case strings.IndexFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		return "$'" + escaped(word) + "'"
	default:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
}

// escaped is a word for the quotes $'...' of a shell. Characters that are not shown by their looks are numbers, so a user who copies the line sees what it has.
func escaped(word string) string {
	var text strings.Builder
	for _, r := range word {
		switch {
		case r == '\'' || r == '\\':
			text.WriteString(`\` + string(r))
		case unicode.IsPrint(r):
			text.WriteRune(r)
		default:
			for _, b := range []byte(string(r)) {
				fmt.Fprintf(&text, `\%03o`, b)
			}
		}
	}
	return text.String()
}

// verb runs a verb of the plugin, in this process.
func (s *server) verb(w http.ResponseWriter, r *http.Request) {
	var asked request
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		fail(w, http.StatusBadRequest, "the request cannot be read: "+err.Error())
		return
	}
	if size := len(asked.Flags[policyFlag]); size > largestPolicy {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("Rollout policy: it has %d bytes, and may have %d", size, largestPolicy))
		return
	}
	if s.namespace != "" && asked.Namespace != s.namespace {
		fail(w, http.StatusNotFound, errMissing.Error())
		return
	}
	asked.connection = s.connection
	words, args, err := asked.arguments()
	if err == nil && asked.Plan != nil && r.URL.Path != applyPath {
		err = options.Usagef("a plan is sent to %s only", applyPath) // fewer of these are served at a time
	}
	if err == nil {
		err = s.checkPlan(r.Context(), &asked)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	play := func(w http.ResponseWriter, r *http.Request) { answer(w, s.play(r.Context(), &asked, words, args)) }
	if offered()[asked.Verb].simulates {
		play = s.planned(play)
	}
	play(w, r)
}

// checkPlan checks that the plan of a request is for the set that the request names, and holds the edit that
// its flags make: so a manipulated page cannot change more with a plan than with the other commands.
func (s *server) checkPlan(ctx context.Context, asked *request) error {
	d := asked.Plan
	switch {
	case d == nil:
		return nil
	case d.Namespace != asked.Namespace || d.Set != asked.Set:
		return options.Usagef("the plan is for %s/%s, and not for %s/%s", d.Namespace, d.Set, asked.Namespace, asked.Set)
	default:
		return d.MadeBy(ctx, s.clientsIn(asked.Namespace), asked.Flags) //nolint:wrapcheck // it names the set
	}
}

// clientsIn returns the clients of the user for a namespace.
func (s *server) clientsIn(namespace string) *options.Clients {
	clients := *s.clients
	clients.Namespace = namespace
	return &clients
}

// play runs a verb with arguments, and returns what it prints.
func (s *server) play(ctx context.Context, asked *request, words, args []string) outcome {
	var out, notes bytes.Buffer
	in := []byte(asked.Flags[policyFlag])
	if asked.Plan != nil {
		var err error
		if in, err = json.Marshal(asked.Plan); err != nil {
			return outcome{Error: "the plan cannot be encoded: " + err.Error()}
		}
	}
	o := options.New(genericiooptions.IOStreams{In: bytes.NewReader(in), Out: &out, ErrOut: &notes})
	o.InName = formName(policyFlag)
	o.Version, o.Now, o.After = s.o.Version, s.o.Now, s.o.After
	o.Getenv = func(string) string { return "" }
	o.Given, o.Exact, o.Confirmed = s.clientsIn(asked.Namespace), map[string]string{}, asked.Flags
	root := s.verbs(o)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	reads := offered()[asked.Verb].reads
	line := slices.Clone(words)
	if reads {
		line = append(line, "--output=json")
	}
	root.SetArgs(append(line, args...))
	err := root.ExecuteContext(ctx)
	result := outcome{Notes: options.PrintableLines(notes.String()), Line: asked.line(words, args)}
	stale := (*plan.StaleError)(nil)
	switch {
	case errors.As(err, &stale):
		result.Error = options.PrintableLines(err.Error())
		for _, change := range stale.Changes {
			result.Stale = append(result.Stale, options.Printable(change))
		}
	case err != nil:
		result.Error = options.PrintableLines(asked.formText(err))
	case reads && json.Valid(out.Bytes()):
		result.Data = out.Bytes()
	default:
		result.Output = options.PrintableLines(out.String())
		result.tried(asked, o.Exact)
	}
	return result
}

// rights returns the reasons why the user may not use commands on a set: a text for each command, and for each right, as right:change-policy.
func (s *server) rights(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	policy, missing := s.policyOf(r.Context(), key), map[string]string{}
	for _, right := range []string{changeSet, changePolicy, createPolicy, decide, changePod} {
		err := s.clients.May(r.Context(), rightOf(right, key, policy))
		if err != nil {
			missing["right:"+right] = options.PageText(err)
		}
		for name, v := range offered() {
			if err != nil && v.right == right {
				missing[name] = options.PageText(err)
			}
		}
	}
	answer(w, missing)
}

// policyOf returns the name of the policy that applies to a set; empty if there is none.
func (s *server) policyOf(ctx context.Context, key clustercache.Key) string {
	if all := s.fleet.PoliciesOf(ctx, key); len(all) > 0 {
		return all[0].Typed.Name
	}
	return ""
}

// rightOf returns the request that a verb makes for a set to which a policy applies.
func rightOf(right string, key clustercache.Key, policy string) options.Request {
	switch right {
	case decide:
		return options.Request{Verb: "create", Resource: policies.ApprovalResource().GroupResource(), Namespace: key.Namespace}
	case changePolicy:
		return options.Request{Verb: "patch", Resource: policies.Resource().GroupResource(), Namespace: key.Namespace, Name: policy}
	case createPolicy:
		return options.Request{Verb: "create", Resource: policies.Resource().GroupResource(), Namespace: key.Namespace}
	case changePod:
		return options.Request{Verb: "patch", Resource: corev1.Resource("pods"), Namespace: key.Namespace}
	}
	resource := schema.GroupResource{Group: "apps", Resource: "daemonsets"}
	for _, d := range dialects.Onlookers() {
		if d.Source.Dialect == key.Dialect {
			resource = d.Source.Resource.GroupResource()
		}
	}
	return options.Request{Verb: "patch", Resource: resource, Namespace: key.Namespace, Name: key.Name}
}
