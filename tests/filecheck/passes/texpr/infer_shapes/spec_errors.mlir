// RUN: ocannl-opt %s -p infer-shapes --split-input-file --verify-diagnostics | filecheck %s

// A caret stands under what is wrong.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b -> c" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: the result is missing: a spec is `operand; operand => result`
// CHECK-NEXT: a b -> c
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a ... b ... => c" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: a row has one row variable at most
// CHECK-NEXT: a ... b ... => c
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b; c => c" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: the spec is for 2 operands, and is used with 1
// CHECK-NEXT: a b; c => c
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %w = texpr.data "w" : !texpr.tensor<2, 3>
  %y = texpr.apply add= mul(%x, %w) logic "a b => c" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: the spec is for 1 operand, and is used with 2
// CHECK-NEXT: a b => c
// CHECK-NEXT: ^

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a 12 => a" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.apply`: numbers of several digits need commas between the axes (for single digits write `1 2`)
// CHECK-NEXT: a 12 => a
// CHECK-NEXT: ^

// -----

// A name that the spec does not have.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b => a" dims <c = 4> : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: `c` is given a size, but the spec 'a b => a' names a, b

// -----

// A concatenation joins what both sides have.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "a b => a^b" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: no part of the concatenations in 'a b => a^b' is in both an operand and the result

// -----

// The logics have as many operands as they combine.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply add= %x logic "@" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: the logic "@" takes 2 operands, found 1

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.apply = mul(%x, %x) logic "T" : !texpr.tensor<...o0>
}

// CHECK: {{:[0-9]+:[0-9]+}}: the logic "T" takes 1 operands, found 2

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  texpr.assign %x = %x logic "@"
}

// CHECK: {{:[0-9]+:[0-9]+}}: the logic "@" combines two tensors, an assignment has one value
