// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom prints what a program was built from. It is the same each time, so it has neither a time nor a serial number.
func (l *library) sbom(program string, to io.Writer) error {
	info, all, err := modules(program)
	if err != nil {
		return err
	}
	name := filepath.Base(program)
	root := cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: setting(info, "main.version"), Licenses: choices([]string{"Apache-2.0"})}
	components := []cdx.Component{{
		BOMRef: purl("std", info.GoVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: purl("std", info.GoVersion), Licenses: choices([]string{"BSD-3-Clause"}),
	}}
	for _, m := range all {
		found, err := l.licences(m)
		if err != nil {
			return err
		}
		components = append(components, cdx.Component{
			BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version), Licenses: choices(found),
			Properties: &[]cdx.Property{{Name: "go:sum", Value: m.Sum}},
		})
	}
	needs := []string{}
	for i := range components {
		needs = append(needs, components[i].BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &needs}}
	if err := cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("writing the bill of materials of %s: %w", program, err)
	}
	return nil
}

// setting is what a variable was set to when the program was linked; empty if it was not.
func setting(info *debug.BuildInfo, variable string) string {
	for _, s := range info.Settings {
		if _, value, found := strings.Cut(s.Value, variable+"="); s.Key == "-ldflags" && found {
			return strings.Fields(value + " ")[0]
		}
	}
	return ""
}

func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

func choices(ids []string) *cdx.Licenses {
	all := cdx.Licenses{}
	for _, id := range ids {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all
}
