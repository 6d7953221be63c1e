// RUN: ocannl-opt %s -p infer-shapes,infer-precisions | filecheck %s

// A gradient has the shape of what it is with respect to, a tangent that of the value; both decide the shapes of others.
// CHECK-LABEL: texpr.routine @shapes {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2, f64>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<2 -> 16, f64>
// CHECK-NEXT:    %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 16, f64>
// CHECK-NEXT:    %ct = texpr.param "ct" : !texpr.tensor<16, f64>
// CHECK-NEXT:    %g = texpr.vjp %y wrt %w from %ct : !texpr.tensor<2 -> 16, f64>
// CHECK-NEXT:    %v = texpr.param "v" : !texpr.tensor<2 -> 16, f64>
// CHECK-NEXT:    %t = texpr.jvp %y wrt (%w = %v) : !texpr.tensor<10 | 16, f64>
// CHECK-NEXT:    texpr.forward %g
// CHECK-NEXT:  }
texpr.routine @shapes {
  %x = texpr.data "x" : !texpr.tensor<10 | 2, f64>
  %w = texpr.param "w" : !texpr.tensor<...i0 -> 16>
  %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  %ct = texpr.param "ct" : !texpr.tensor<...o4>
  %g = texpr.vjp %y wrt %w from %ct : !texpr.tensor<...b5 | ...i6 -> ...o7>
  %v = texpr.param "v" : !texpr.tensor<...i8 -> ...o9>
  %t = texpr.jvp %y wrt (%w = %v) : !texpr.tensor<...b10 | ...i11 -> ...o12>
  texpr.forward %g
}

// What a pullback gives has the axes of its operand, and may have more.
// CHECK-LABEL: texpr.routine @custom {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %b = texpr.param "b" : !texpr.tensor<3, f32>
// CHECK-NEXT:    %s = texpr.apply = mul(%x, %b) logic "." : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %ct = texpr.adjoint %s : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %one = texpr.constant 1.0 : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    %y = texpr.custom %s adjoint %ct pullback (%x = %one, %b = %ct) : !texpr.tensor<10 | 3, f32>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @custom {
  %x = texpr.data "x" : !texpr.tensor<10 | 3, f32>
  %b = texpr.param "b" : !texpr.tensor<...o0>
  %s = texpr.apply = mul(%x, %b) logic "." : !texpr.tensor<...b1 | ...i2 -> ...o3>
  %ct = texpr.adjoint %s : !texpr.tensor<...b4 | ...i5 -> ...o6>
  %one = texpr.constant 1.0 : !texpr.tensor<...b7 | ...i8 -> ...o9>
  %y = texpr.custom %s adjoint %ct pullback (%x = %one, %b = %ct) : !texpr.tensor<...b10 | ...i11 -> ...o12>
  texpr.forward %y
}
