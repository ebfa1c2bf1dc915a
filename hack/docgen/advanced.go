// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed" // for the template
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/webhook/defaulting"
	"everynode.dev/everynode/internal/webhook/validation"
)

// advancedTemplate is the text of the page that is not a table.
//
//go:embed advanced.md.tmpl
var advancedTemplate string

// advancedPage is the data of the template.
type advancedPage struct {
	Spec, Status                           []fieldRow
	OnlyAlpha, OnlyBeta                    []string
	SurgingMaxSurge, SurgingMaxUnavailable int
	MaxName                                int
	ProgressiveCreate, Preparing, Normal   string
	Conditions, Reasons, SetKeys, PodKeys  []entry
	Refused, Warned                        []answer
}

// entry is a name and what it means.
type entry struct{ Value, Doc string }

// advanced describes the Advanced DaemonSet: its fields from the types, their defaults from defaulting, what is refused from
// validation, and names from where they are declared.
func advanced(tree *sources) (string, error) {
	page, err := readAdvanced(tree)
	if err != nil {
		return "", err
	}
	functions := template.FuncMap{
		"table": table,
		"join":  func(lines []string) string { return cell(strings.Join(lines, "<br>")) },
	}
	t, err := template.New("advanced").Funcs(functions).Parse(advancedTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, page)
	return b.String(), err
}

func readAdvanced(tree *sources) (page advancedPage, err error) {
	page.SurgingMaxSurge, page.SurgingMaxUnavailable = defaulting.SurgingMaxSurge, defaulting.SurgingMaxUnavailable
	page.MaxName = validation.MaxName
	page.ProgressiveCreate = kruise.ProgressiveCreate
	page.Preparing, page.Normal = kruise.LifecyclePreparingDelete, kruise.LifecycleNormal
	for _, step := range []func() error{
		func() error { return page.readFields(tree) },
		func() error { return page.readNames(tree) },
		func() error { page.Refused, err = refused(); return err },
		func() error { page.Warned, err = warned(); return err },
	} {
		if err := step(); err != nil {
			return page, err
		}
	}
	return page, nil
}

func (p *advancedPage) readFields(tree *sources) (err error) {
	const alpha, beta = "api/kruise/v1alpha1", "api/kruise/v1beta1"
	if p.Spec, err = fieldsOf(tree, beta, "DaemonSetSpec", "spec"); err != nil {
		return err
	}
	if p.Status, err = fieldsOf(tree, beta, "DaemonSetStatus", "status"); err != nil {
		return err
	}
	old := []fieldRow{}
	for _, part := range []struct{ name, at string }{{"DaemonSetSpec", "spec"}, {"DaemonSetStatus", "status"}} {
		rows, err := fieldsOf(tree, alpha, part.name, part.at)
		if err != nil {
			return err
		}
		old = append(old, rows...)
	}
	now := slices.Concat(p.Spec, p.Status)
	p.OnlyAlpha, p.OnlyBeta = missing(old, now), missing(now, old)
	return nil
}

// missing are the paths that only the first list has.
func missing(from, in []fieldRow) (paths []string) {
	for _, row := range from {
		if !slices.ContainsFunc(in, func(other fieldRow) bool { return other.Path == row.Path }) {
			paths = append(paths, row.Path)
		}
	}
	return paths
}

func (p *advancedPage) readNames(tree *sources) error {
	for _, source := range []struct {
		into   *[]entry
		dir    string
		begins string
	}{
		{&p.Conditions, "internal/dialect/kruise", "The types of conditions"},
		{&p.Reasons, "internal/dialect/kruise", "The reasons of conditions"},
		{&p.SetKeys, "api/kruise", "Annotations on a daemon set"},
		{&p.SetKeys, "api/everynode", "Annotations on a DaemonSet"},
		{&p.SetKeys, "api/everynode", "Annotations on an Advanced DaemonSet"},
		{&p.SetKeys, "api/everynode", "Annotations that conversion"},
		{&p.SetKeys, "api/kruise", "Labels on a daemon set"},
		{&p.PodKeys, "api/kruise", "Readiness gates"},
		{&p.PodKeys, "api/kruise", "Annotations and labels on pods"},
	} {
		entries, err := named(tree, source.dir, source.begins)
		if err != nil {
			return err
		}
		*source.into = append(*source.into, entries...)
	}
	return nil
}

// named are the constants of the declaration in dir whose comment begins so.
func named(tree *sources, dir, begins string) (entries []entry, err error) {
	groups, err := constants(tree, dir)
	if err != nil {
		return nil, err
	}
	values := valuesOf(groups)
	maps.DeleteFunc(values, func(name, value string) bool { return name == value })
	for _, g := range groups {
		if !strings.HasPrefix(g.heading, begins) {
			continue
		}
		for _, d := range g.constants {
			if d.doc == "" || d.value == "" {
				return nil, fmt.Errorf("%s.%s has no comment or no value: the reference would not say what it is", dir, d.name)
			}
			entries = append(entries, entry{d.value, cell(spoken(sentence(d), values))})
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s has no constants below a comment that begins %q", dir, begins)
	}
	return entries, nil
}

// table lists fields, those of the specification with their defaults.
func table(rows []fieldRow, defaults bool) string {
	obj := map[string]any{"spec": map[string]any{}}
	defaulting.Default(obj)
	var b strings.Builder
	if defaults {
		b.WriteString("| field | type | default | meaning |\n|---|---|---|---|\n")
	} else {
		b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	}
	for _, row := range rows {
		value := ""
		if defaults {
			value = defaultOf(obj, row) + " | "
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", row.Path, row.Kind, value, cell(row.Doc))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// defaultOf returns the value of a field that is not set: the default that defaulting wrote into obj, or the zero value.
func defaultOf(obj map[string]any, row fieldRow) string {
	value := row.Zero
	if found := lookUp(obj, row.Path); found != nil && row.Kind != "object" {
		value = fmt.Sprint(found)
	}
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

// lookUp is the value at a path, nil if there is none.
func lookUp(obj map[string]any, path string) any {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		obj, _ = obj[key].(map[string]any)
	}
	return obj[keys[len(keys)-1]]
}
