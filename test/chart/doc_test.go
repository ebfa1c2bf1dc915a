// SPDX-License-Identifier: Apache-2.0

// Package chart holds the chart (charts/everynode) against what it is made from, with Helm's own library: it renders to the manifests of config/, its
// values are checked, and what it renders to are objects that an API server knows.
//
// Rule: no test here repeats a manifest; config/ says what is right. None needs a plane: test/e2e installs the chart.
package chart
