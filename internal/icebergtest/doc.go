// Package icebergtest is support for tests: it unpacks the reference tables that Spark wrote, builds small worlds in words (World), and tells
// what rows a table holds with an engine that is not ours (Rows). Nothing of the product imports it.
package icebergtest
