// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"debug/gosym"
	"debug/macho"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// packages returns the packages with at least one function in the program. Programs without symbols have the table of functions, too.
func packages(program string) ([]string, error) {
	table, text, err := functions(program)
	if err != nil {
		return nil, fmt.Errorf("reading which functions %s holds: %w", program, err)
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(table, text))
	if err != nil {
		return nil, fmt.Errorf("reading which functions %s holds: %w", program, err)
	}
	found := map[string]bool{}
	for i := range symbols.Funcs {
		if name := packageOf(symbols.Funcs[i].Name); name != "" {
			found[name] = true
		}
	}
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// packageOf returns the package of a function such as gopkg.in/yaml%2ev3.(*parser).peek; the type arguments
// of a generic function may name other packages, and so may a promoted method of an embedded type.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[")
	function, _, method := strings.Cut(function, ".(")
	if method {
		function += "."
	}
	dirs := strings.LastIndex(function, "/") + 1
	last, _, ok := strings.Cut(function[dirs:], ".")
	if !ok {
		return ""
	}
	name, err := url.PathUnescape(function[:dirs] + last)
	if err != nil {
		return ""
	}
	return name
}

// functions is the table of the functions of a program, and the address of the first.
func functions(program string) (table []byte, text uint64, err error) {
	if file, err := elf.Open(program); err == nil {
		defer file.Close()
		table, code := file.Section(".gopclntab"), file.Section(".text")
		if table == nil {
			table = file.Section(".data.rel.ro.gopclntab") // of a program that may be anywhere in memory
		}
		if table == nil || code == nil {
			return nil, 0, fmt.Errorf("it has no table of functions")
		}
		data, err := table.Data()
		return data, code.Addr, err
	}
	file, err := macho.Open(program)
	if err != nil {
		return nil, 0, fmt.Errorf("it is neither ELF nor Mach-O")
	}
	defer file.Close()
	section, code := file.Section("__gopclntab"), file.Section("__text")
	if section == nil || code == nil {
		return nil, 0, fmt.Errorf("it has no table of functions")
	}
	data, err := section.Data()
	return data, code.Addr, err
}
