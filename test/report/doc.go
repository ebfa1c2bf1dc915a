// SPDX-License-Identifier: Apache-2.0

// Package report turns what was measured into what people read: a summary of many times, a table in Markdown, a plot in SVG, and
// the section of a document that holds them.
//
//	summary   the least, the median, the 90th percentile and the greatest of many times; each of them is one that was measured
//	figure    panels side by side with one scale, so that they can be compared; a panel shows series of points
//	section   what stands between <!-- NAME: begin --> and <!-- NAME: end --> in a document
//
// The rule: the same numbers give the same bytes, so that a document changes only when what was measured does.
package report
