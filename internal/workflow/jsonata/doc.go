// Package jsonata evaluates the subset of JSONata that Firn's state machine may use, with the results of the reference
// engine (jsonata 2.x in JavaScript), so that an expression means the same on a laptop and on AWS.
//
// The parser is the one of blues/jsonata-go. The evaluator is our own: that library's evaluator differs in singleton
// unwrapping, reports "no results" as an error of its own, and reads 64-bit integers as floats.
//
// The subset, enforced by Compile:
//
//   - literals: strings, numbers, true, false, null, objects, arrays, ranges inside an array ([1..3])
//   - paths from a variable: $v.a.b, with object and array constructors, blocks of one expression and function calls as later
//     steps; field names without a variable before them only where there is a context, that is in a later step or in a predicate
//   - predicates and indexes: $v.a[0], $v.a[-1], $v.a[size > 5]; $ inside them; [] after a path to keep an array
//   - operators: + - * / % & = != < <= > >= in and or ?: and unary minus
//   - functions: those that the table in functions.go lists, each with all its arguments given
//   - the additions of Step Functions that have one answer: $partition, $range, $hash, $parse
//
// Refused on purpose: $random, $uuid, $now, $millis and $shuffle (two runs of one execution would differ; identity comes from
// the input), $eval (Step Functions refuses it too), functions as values, assignments, sorting, grouping, wildcards,
// regular expressions, and $$ (there is no root context in a state machine).
//
// Numbers are IEEE doubles, as in JavaScript. An integer that a double cannot hold exactly (beyond 2^53-1) may be part of the
// data and may be skipped over, but an expression that computes with it or returns it fails with ErrUnsafeInteger instead
// of rounding it silently: send such numbers as strings.
package jsonata
