// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// Inputs become outputs and outputs inputs, in their order.
// CHECK-LABEL: texpr.routine @swap {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2, 3 -> 4>
// CHECK-NEXT:    %t = texpr.apply = %x logic "T" : !texpr.tensor<10 | 4 -> 2, 3>
// CHECK-NEXT:    texpr.forward %t
// CHECK-NEXT:  }
texpr.routine @swap {
  %x = texpr.data "x" : !texpr.tensor<10 | 2, 3 -> 4>
  %t = texpr.apply = %x logic "T" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %t
}

// Knowledge goes up as well.
// CHECK-LABEL: texpr.routine @upwards {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<6 -> 5>
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<2 -> 3>
// CHECK-NEXT:    %t = texpr.apply = %w logic "T" : !texpr.tensor<5 -> 6>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<5 -> 6>
// CHECK-NEXT:    texpr.assign %n = %t logic "."
// CHECK-NEXT:  }
texpr.routine @upwards {
  %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1>
  %x = texpr.data "x" : !texpr.tensor<2 -> 3>
  %t = texpr.apply = %w logic "T" : !texpr.tensor<...b2 | ...i3 -> ...o4>
  %n = texpr.node "n" : !texpr.tensor<5 -> 6>
  texpr.assign %n = %t logic "."
}

// An assignment may transpose.
// CHECK-LABEL: texpr.routine @assigned {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<2 -> 3>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<3 -> 2>
// CHECK-NEXT:    texpr.assign %n = %x logic "T"
// CHECK-NEXT:  }
texpr.routine @assigned {
  %x = texpr.data "x" : !texpr.tensor<2 -> 3>
  %n = texpr.node "n" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.assign %n = %x logic "T"
}
