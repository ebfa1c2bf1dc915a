// SPDX-License-Identifier: Apache-2.0

// Package report formats measurements: a summary of many durations, a table in Markdown, a plot in SVG, and a section
// of a document.
//
//	summary   the least, the median, the 90th percentile and the greatest of many times; each is a measured value
//	figure    panels side by side with one scale, so that they can be compared; a panel shows series of points
//	section   the text between <!-- NAME: begin --> and <!-- NAME: end --> in a document
//
// Rule: the output is deterministic, so that a document changes only if the measurements do.
package report
