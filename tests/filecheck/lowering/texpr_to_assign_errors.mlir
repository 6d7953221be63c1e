// RUN: ocannl-opt %s -p lower-texpr-to-assign --split-input-file --verify-diagnostics | filecheck %s

// What must have happened before.
texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<3, f32>
  texpr.forward %y
}

// CHECK: {{:[0-9]+:[0-9]+}}: an operation has no index maps yet: run infer-projections first

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3 | 3, f32>
  %s = texpr.slice %x at 0 : !texpr.tensor<3, f32>
  texpr.forward %s
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.slice` must be gone before the code is lowered

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  texpr.assign %x = %x logic "."
}

// CHECK: {{:[0-9]+:[0-9]+}}: an assignment has no index maps yet: run infer-projections first

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  texpr.backprop %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `texpr.backprop` must be gone before the code is lowered

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<3>
  texpr.forward %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `x` has no element type: run infer-precisions first

// -----

texpr.routine @r {
  %x = texpr.data "x" : !texpr.tensor<...o0>
  texpr.forward %x
}

// CHECK: {{:[0-9]+:[0-9]+}}: `x` has no element type: run infer-precisions first

// -----

texpr.routine @r {
  %half = texpr.constant 0.5 : !texpr.tensor<f32>
  %u = texpr.uniform "u" at %half : !texpr.tensor<3, f32>
  texpr.forward %u
}

// CHECK: {{:[0-9]+:[0-9]+}}: a counter is a whole number, found 0.5
