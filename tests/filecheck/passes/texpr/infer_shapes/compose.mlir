// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// Hidden dimensions follow from the biases that are added.
// CHECK-LABEL: texpr.routine @mlp {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2>
// CHECK-NEXT:    %w1 = texpr.param "w1" : !texpr.tensor<2 -> 16>
// CHECK-NEXT:    %b1 = texpr.param "b1" : !texpr.tensor<16>
// CHECK-NEXT:    %w2 = texpr.param "w2" : !texpr.tensor<16 -> 1>
// CHECK-NEXT:    %p1 = texpr.apply add= mul(%w1, %x) logic "@" : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %s1 = texpr.apply = add(%p1, %b1) logic "." : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %h1 = texpr.apply = relu(%s1) logic "." : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %p2 = texpr.apply add= mul(%w2, %h1) logic "@" : !texpr.tensor<10 | 1>
// CHECK-NEXT:    texpr.forward %p2
// CHECK-NEXT:  }
texpr.routine @mlp {
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %w1 = texpr.param "w1" : !texpr.tensor<...i0 -> ...o1>
  %b1 = texpr.param "b1" : !texpr.tensor<16>
  %w2 = texpr.param "w2" : !texpr.tensor<...i2 -> 1>
  %p1 = texpr.apply add= mul(%w1, %x) logic "@" : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %s1 = texpr.apply = add(%p1, %b1) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %h1 = texpr.apply = relu(%s1) logic "." : !texpr.tensor<...b9 | ...i10 -> ...o11>
  %p2 = texpr.apply add= mul(%w2, %h1) logic "@" : !texpr.tensor<...b12 | ...i13 -> ...o14>
  texpr.forward %p2
}

// The inputs of the right side are those of the result.
// CHECK-LABEL: texpr.routine @composition {
// CHECK-NEXT:    %f = texpr.data "f" : !texpr.tensor<7 | 3 -> 5>
// CHECK-NEXT:    %g = texpr.data "g" : !texpr.tensor<2, 4 -> 3>
// CHECK-NEXT:    %h = texpr.apply add= mul(%f, %g) logic "@" : !texpr.tensor<7 | 2, 4 -> 5>
// CHECK-NEXT:    texpr.forward %h
// CHECK-NEXT:  }
texpr.routine @composition {
  %f = texpr.data "f" : !texpr.tensor<7 | 3 -> 5>
  %g = texpr.data "g" : !texpr.tensor<2, 4 -> 3>
  %h = texpr.apply add= mul(%f, %g) logic "@" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %h
}

// A number meets the rows that it is composed with.
// CHECK-LABEL: texpr.routine @numbers {
// CHECK-NEXT:    %m = texpr.data "m" : !texpr.tensor<3 -> 5>
// CHECK-NEXT:    %two = texpr.constant 2.0 : !texpr.tensor<3>
// CHECK-NEXT:    %three = texpr.constant 3.0 : !texpr.tensor<5 -> >
// CHECK-NEXT:    %a = texpr.apply add= mul(%m, %two) logic "@" : !texpr.tensor<5>
// CHECK-NEXT:    %b = texpr.apply add= mul(%three, %m) logic "@" : !texpr.tensor<3 -> >
// CHECK-NEXT:    texpr.forward %a
// CHECK-NEXT:    texpr.forward %b
// CHECK-NEXT:  }
texpr.routine @numbers {
  %m = texpr.data "m" : !texpr.tensor<3 -> 5>
  %two = texpr.constant 2.0 : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %three = texpr.constant 3.0 : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %a = texpr.apply add= mul(%m, %two) logic "@" : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %b = texpr.apply add= mul(%three, %m) logic "@" : !texpr.tensor<...b9 | ...i10 -> ...o11>
  texpr.forward %a
  texpr.forward %b
}
