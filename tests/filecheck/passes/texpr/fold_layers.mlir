// RUN: ocannl-opt %s --split-input-file -p fold-layers | filecheck %s

// Of seven products the first two stay, and the last two: the sixth reads what the second has computed. What is done
// with a parameter belongs to its layer.
// CHECK-LABEL: texpr.routine @products
// CHECK-SAME:    ["w1", "w2", "w3", "w4", "w5", "w6", "w7"]
// CHECK-SAME:    ["x1", "x2", "x3", "x4", "x5", "x6", "x7"]
// CHECK-NOT:     "w3"
// CHECK:         %x1 = texpr.apply add= mul(%w1, %x0)
// CHECK:         %x2 = texpr.apply add= mul(%w2, %x1)
// CHECK:         %x6 = texpr.apply add= mul(%w6, %x2)
// CHECK:         %x7 = texpr.apply add= mul(%w7, %x6)
// CHECK-NOT:     "w3
// CHECK:         texpr.forward %x7
// CHECK-NEXT:    texpr.comment "w1"
// CHECK-NEXT:    texpr.assign %w1 = %v1
// CHECK-NEXT:    texpr.comment "w2"
// CHECK-NEXT:    texpr.assign %w2 = %v2
// CHECK-NEXT:    texpr.comment "w6"
// CHECK-NEXT:    texpr.assign %w6 = %v6
// CHECK-NEXT:    texpr.comment "w7"
// CHECK-NEXT:    texpr.assign %w7 = %v7
// CHECK-NEXT:  }
texpr.routine @products {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<8 -> 8, f32>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<8 -> 8, f32>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<8 -> 8, f32>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<8 -> 8, f32>
  %x4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<8 -> 8, f32>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<8 -> 8, f32>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  %w7 = texpr.param "w7" : !texpr.tensor<8 -> 8, f32>
  %x7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<8, f32>
  %half1 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v1 = texpr.apply = mul(%w1, %half1) logic "." : !texpr.tensor<8 -> 8, f32>
  %half2 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v2 = texpr.apply = mul(%w2, %half2) logic "." : !texpr.tensor<8 -> 8, f32>
  %half3 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v3 = texpr.apply = mul(%w3, %half3) logic "." : !texpr.tensor<8 -> 8, f32>
  %half4 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v4 = texpr.apply = mul(%w4, %half4) logic "." : !texpr.tensor<8 -> 8, f32>
  %half5 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v5 = texpr.apply = mul(%w5, %half5) logic "." : !texpr.tensor<8 -> 8, f32>
  %half6 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v6 = texpr.apply = mul(%w6, %half6) logic "." : !texpr.tensor<8 -> 8, f32>
  %half7 = texpr.constant 0.5 : !texpr.tensor<8 -> 8, f32>
  %v7 = texpr.apply = mul(%w7, %half7) logic "." : !texpr.tensor<8 -> 8, f32>
  texpr.forward %x7
  texpr.comment "w1"
  texpr.assign %w1 = %v1 logic "."
  texpr.comment "w2"
  texpr.assign %w2 = %v2 logic "."
  texpr.comment "w3"
  texpr.assign %w3 = %v3 logic "."
  texpr.comment "w4"
  texpr.assign %w4 = %v4 logic "."
  texpr.comment "w5"
  texpr.assign %w5 = %v5 logic "."
  texpr.comment "w6"
  texpr.assign %w6 = %v6 logic "."
  texpr.comment "w7"
  texpr.assign %w7 = %v7 logic "."
}

// -----

// One layer is another function: none is left out.
// CHECK-LABEL: texpr.routine @unequal {
// CHECK-COUNT-7: texpr.apply
texpr.routine @unequal {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<8 -> 8, f32>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<8 -> 8, f32>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<8 -> 8, f32>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<8 -> 8, f32>
  %x4 = texpr.apply add= max(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<8 -> 8, f32>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<8 -> 8, f32>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  %w7 = texpr.param "w7" : !texpr.tensor<8 -> 8, f32>
  %x7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<8, f32>
  texpr.forward %x7
}

// -----

// What each layer computes is added up outside.
// CHECK-LABEL: texpr.routine @together {
// CHECK-COUNT-8: texpr.apply
texpr.routine @together {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<8 -> 8, f32>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<8 -> 8, f32>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<8 -> 8, f32>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<8 -> 8, f32>
  %x4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<8 -> 8, f32>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<8 -> 8, f32>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  %w7 = texpr.param "w7" : !texpr.tensor<8 -> 8, f32>
  %x7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<8, f32>
  %sum = texpr.apply = add(add(add(%x1, %x2), add(%x3, %x4)), add(add(%x5, %x6), %x7)) logic "." : !texpr.tensor<8, f32>
  texpr.forward %sum
}

// -----

// A parameter of all layers has one derivative, which is a sum over them.
// CHECK-LABEL: texpr.routine @shared {
// CHECK-COUNT-14: texpr.apply
texpr.routine @shared {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %b = texpr.param "b" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<8 -> 8, f32>
  %y1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %x1 = texpr.apply = add(%y1, %b) logic "." : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<8 -> 8, f32>
  %y2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %x2 = texpr.apply = add(%y2, %b) logic "." : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<8 -> 8, f32>
  %y3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %x3 = texpr.apply = add(%y3, %b) logic "." : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<8 -> 8, f32>
  %y4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %x4 = texpr.apply = add(%y4, %b) logic "." : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<8 -> 8, f32>
  %y5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %x5 = texpr.apply = add(%y5, %b) logic "." : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<8 -> 8, f32>
  %y6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  %x6 = texpr.apply = add(%y6, %b) logic "." : !texpr.tensor<8, f32>
  %w7 = texpr.param "w7" : !texpr.tensor<8 -> 8, f32>
  %y7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<8, f32>
  %x7 = texpr.apply = add(%y7, %b) logic "." : !texpr.tensor<8, f32>
  texpr.zero_grads %x7
  texpr.backprop %x7
}

// -----

// Gradients of their own, which nothing asks for, let scalars of layers be.
// CHECK-LABEL: texpr.routine @own_gradients attributes {layers
// CHECK:         %y2 = texpr.apply = recip_sqrt(%p2)
// CHECK-NOT:     %s3 =
// CHECK:         %s5 = texpr.custom %y5 adjoint %t5 pullback (%s2 = %t5)
// CHECK:         texpr.forward %s6
texpr.routine @own_gradients {
  %s0 = texpr.data "s0" : !texpr.tensor<1, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<1, f32>
  %p1 = texpr.apply add= mul(%w1, %s0) logic "." : !texpr.tensor<1, f32>
  %y1 = texpr.apply = recip_sqrt(%p1) logic "." : !texpr.tensor<1, f32>
  %t1 = texpr.adjoint %y1 : !texpr.tensor<1, f32>
  %s1 = texpr.custom %y1 adjoint %t1 pullback (%s0 = %t1) : !texpr.tensor<1, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<1, f32>
  %p2 = texpr.apply add= mul(%w2, %s1) logic "." : !texpr.tensor<1, f32>
  %y2 = texpr.apply = recip_sqrt(%p2) logic "." : !texpr.tensor<1, f32>
  %t2 = texpr.adjoint %y2 : !texpr.tensor<1, f32>
  %s2 = texpr.custom %y2 adjoint %t2 pullback (%s1 = %t2) : !texpr.tensor<1, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<1, f32>
  %p3 = texpr.apply add= mul(%w3, %s2) logic "." : !texpr.tensor<1, f32>
  %y3 = texpr.apply = recip_sqrt(%p3) logic "." : !texpr.tensor<1, f32>
  %t3 = texpr.adjoint %y3 : !texpr.tensor<1, f32>
  %s3 = texpr.custom %y3 adjoint %t3 pullback (%s2 = %t3) : !texpr.tensor<1, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<1, f32>
  %p4 = texpr.apply add= mul(%w4, %s3) logic "." : !texpr.tensor<1, f32>
  %y4 = texpr.apply = recip_sqrt(%p4) logic "." : !texpr.tensor<1, f32>
  %t4 = texpr.adjoint %y4 : !texpr.tensor<1, f32>
  %s4 = texpr.custom %y4 adjoint %t4 pullback (%s3 = %t4) : !texpr.tensor<1, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<1, f32>
  %p5 = texpr.apply add= mul(%w5, %s4) logic "." : !texpr.tensor<1, f32>
  %y5 = texpr.apply = recip_sqrt(%p5) logic "." : !texpr.tensor<1, f32>
  %t5 = texpr.adjoint %y5 : !texpr.tensor<1, f32>
  %s5 = texpr.custom %y5 adjoint %t5 pullback (%s4 = %t5) : !texpr.tensor<1, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<1, f32>
  %p6 = texpr.apply add= mul(%w6, %s5) logic "." : !texpr.tensor<1, f32>
  %y6 = texpr.apply = recip_sqrt(%p6) logic "." : !texpr.tensor<1, f32>
  %t6 = texpr.adjoint %y6 : !texpr.tensor<1, f32>
  %s6 = texpr.custom %y6 adjoint %t6 pullback (%s5 = %t6) : !texpr.tensor<1, f32>
  texpr.forward %s6
}
