// SPDX-License-Identifier: Apache-2.0

// Package arch holds the rules that keep the repository in shape, and the checker that reads them.
//
// The vocabulary:
//
//   - a Tree is the parsed source of the repository: its modules, packages and text files;
//   - a Zone is a group of packages that obey the same import rules; every package belongs to exactly one;
//   - a Violation is one place where a rule is broken, with the reason of the rule.
//
// The rules themselves are data, in rules.go. Two kinds of rot are violations as well: a package that no zone names, and a
// zone that names a package which does not exist. The checker only parses (it needs no build and no network), so it also
// runs on the small trees in memory with which its own test shows that each rule can fail.
package arch
