// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// The leftmost batch axis goes.
// CHECK-LABEL: texpr.routine @down indices (n = 80) {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<80, 10 | 2 -> 3>
// CHECK-NEXT:    %s = texpr.slice %x at n : !texpr.tensor<10 | 2 -> 3>
// CHECK-NEXT:    texpr.forward %s
// CHECK-NEXT:  }
texpr.routine @down indices (n = 80) {
  %x = texpr.data "x" : !texpr.tensor<80, 10 | 2 -> 3>
  %s = texpr.slice %x at n : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %s
}

// The range of the index is the size of the axis.
// CHECK-LABEL: texpr.routine @up indices (n = 80) {
// CHECK-NEXT:    %x = texpr.node "x" : !texpr.tensor<80, 10 | 3>
// CHECK-NEXT:    %s = texpr.slice %x at n : !texpr.tensor<10 | 3>
// CHECK-NEXT:    texpr.forward %s
// CHECK-NEXT:  }
texpr.routine @up indices (n = 80) {
  %x = texpr.node "x" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %s = texpr.slice %x at n : !texpr.tensor<10 | 3>
  texpr.forward %s
}

// A position has a size of one more at least.
// CHECK-LABEL: texpr.routine @position {
// CHECK-NEXT:    %x = texpr.node "x" : !texpr.tensor<5, 10 | 3>
// CHECK-NEXT:    %s = texpr.slice %x at 4 : !texpr.tensor<10 | 3>
// CHECK-NEXT:    texpr.forward %s
// CHECK-NEXT:  }
texpr.routine @position {
  %x = texpr.node "x" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %s = texpr.slice %x at 4 : !texpr.tensor<10 | 3>
  texpr.forward %s
}
