// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: the body of a scan sees nothing but its arguments
texpr.routine @captured {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.scan t = 2 carry (%c = %x : !texpr.tensor<3, f32>) {
    texpr.yield carry (%x)
  } : !texpr.tensor<3, f32>
}

// -----

// CHECK: 1 carries and 1 results are expected, found 0 and 1 values
texpr.routine @missing_carry {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.scan t = 2 carry (%c = %x : !texpr.tensor<3, f32>) {
    texpr.yield each (%c at batch -1)
  } : !texpr.tensor<3, f32>
}

// -----

// CHECK: what is carried has one shape, found 3 and 2
texpr.routine @other_shape {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %z = texpr.data "z" : !texpr.tensor<2, f32>
  %y = texpr.scan t = 2 carry (%c = %x : !texpr.tensor<3, f32>) with (%d = %z) {
    texpr.yield carry (%d)
  } : !texpr.tensor<3, f32>
}

// -----

// CHECK: 3|3 has no axis batch -1 of 2 positions
texpr.routine @other_length {
  %x = texpr.data "x" : !texpr.tensor<3 | 3, f32>
  %y = texpr.scan t = 2 each (%c = %x at batch -1 : !texpr.tensor<3, f32>) {
    texpr.yield each (%c at batch -1)
  } : !texpr.tensor<2 | 3, f32>
}

// -----

// CHECK: `texpr.forward` is no part of the body of a scan
texpr.routine @statement {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.scan t = 2 carry (%c = %x : !texpr.tensor<3, f32>) {
    texpr.forward %c
    texpr.yield carry (%c)
  } : !texpr.tensor<3, f32>
}

// -----

// CHECK: the body of a scan ends with `texpr.yield`
texpr.routine @no_end {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.scan t = 2 carry (%c = %x : !texpr.tensor<3, f32>) {
    %z = texpr.apply = sin(%c) logic "." : !texpr.tensor<3, f32>
  } : !texpr.tensor<3, f32>
}

// -----

// CHECK: a fixed point has one carry, no sequences and no stacks
texpr.routine @two_carries {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y, %z = texpr.scan t = 2 within 0.1 carry (%c = %x : !texpr.tensor<3, f32>, %d = %x : !texpr.tensor<3, f32>) {
    texpr.yield carry (%c, %d)
  } : !texpr.tensor<3, f32>, !texpr.tensor<3, f32>
}

// -----

// CHECK: a fixed point ends by its tolerance: it has no flag and no direction
texpr.routine @both_ends {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %y = texpr.scan t = 2 while %c within 0.1 carry (%c = %x : !texpr.tensor<f32>) {
    texpr.yield carry (%c)
  } : !texpr.tensor<f32>
}

// -----

// CHECK: a fixed point ends by its tolerance: it has no flag and no direction
texpr.routine @from_the_last {
  %x = texpr.data "x" : !texpr.tensor<f32>
  %y = texpr.scan t = 2 reverse within 0.1 carry (%c = %x : !texpr.tensor<f32>) {
    texpr.yield carry (%c)
  } : !texpr.tensor<f32>
}

// -----

// CHECK: a scan has `while` or `where`, not both
texpr.routine @both_conditions {
  %x = texpr.data "x" : !texpr.tensor<2, f32>
  %n = texpr.constant 1.0 : !texpr.tensor<f32>
  %y = texpr.scan t = 2 while %c where %s carry (%c = %n : !texpr.tensor<f32>) each (%s = %x at output 0 : !texpr.tensor<f32>) {
    texpr.yield carry (%s)
  } : !texpr.tensor<f32>
}
