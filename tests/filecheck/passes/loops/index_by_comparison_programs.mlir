// RUN: ocannl-opt %s -p infer-shapes,infer-precisions,infer-projections,differentiate,lower-texpr-to-assign,lower-assign-to-loops,inline-nodes,index-by-comparison,fuse,simplify | filecheck %s

// A product with one-hot vectors.
// CHECK-LABEL: loops.func @one_hot_product
// CHECK:         loops.nest "y" (b = 4, o = 8) {
// CHECK-NEXT:      %0 = loops.load %ids[b]
// CHECK-NEXT:      %1, %2 = loops.position %0 below 6
// CHECK-NEXT:      %3 = loops.load %w[o, %1]
// CHECK-NEXT:      %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %5 = arith.select %2, %3, %4 : f32
// CHECK-NEXT:      loops.store %5, %y[b, o]
// CHECK-NEXT:    }
texpr.routine @one_hot_product {
  %w = texpr.param "w" : !texpr.tensor<6 -> 8>
  %ids = texpr.data "ids" : !texpr.tensor<4 | i32>
  %n2 = texpr.range : !texpr.tensor<6>
  %n3 = texpr.apply = eq(%ids, %n2) logic "." : !texpr.tensor<...b0, 4 | ...i1 -> 6>
  %y = texpr.apply add= mul(%w, %n3) logic "@" : !texpr.tensor<...b2, 4 | ...i3 -> ...o4, 8>
  texpr.forward %y
}

// Its gradient.
// CHECK-LABEL: loops.func @one_hot_product_gradient
// CHECK:         loops.nest "n4 .. n" (b = 4, o = 8) {
// CHECK-NEXT:      %1 = loops.load %ids[b]
// CHECK-NEXT:      %2, %3 = loops.position %1 below 6
// CHECK-NEXT:      %4 = loops.load %w[o, %2]
// CHECK-NEXT:      %5 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %6 = arith.select %3, %4, %5 : f32
// CHECK-NEXT:      loops.store %6, %n4[b, o]
// CHECK-NEXT:      %7 = arith.addf %6, %6 : f32
// CHECK-NEXT:      loops.store %7, %0[b, o]
// CHECK-NEXT:    }
// CHECK:         loops.nest "loss .. loss.grad" () {
// CHECK-NEXT:      %8 = loops.reduce add (b = 4, o = 8) : f32 {
// CHECK-NEXT:        %9 = loops.load %n4[b, o]
// CHECK-NEXT:        %10 = arith.mulf %9, %9 : f32
// CHECK-NEXT:        loops.yield %10
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %8, %loss[0]
// CHECK-NEXT:      %11 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %11, %loss_grad[0]
// CHECK-NEXT:    }
// CHECK:         loops.nest "w.grad" (o = 8, i = 6) {
// CHECK-NEXT:      %12 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %12, %w_grad[o, i]
// CHECK-NEXT:    }
// CHECK:         loops.nest "w.grad scatter" (b = 4, o = 8) {
// CHECK-NEXT:      %13 = loops.load %ids[b]
// CHECK-NEXT:      %14, %15 = loops.position %13 below 6
// CHECK-NEXT:      %16 = loops.load %0[b, o]
// CHECK-NEXT:      %17 = loops.load %w_grad[o, %14]
// CHECK-NEXT:      %18 = arith.addf %17, %16 : f32
// CHECK-NEXT:      %19 = arith.select %15, %18, %17 : f32
// CHECK-NEXT:      loops.store %19, %w_grad[o, %14]
// CHECK-NEXT:    }
texpr.routine @one_hot_product_gradient {
  %w = texpr.param "w" : !texpr.tensor<6 -> 8>
  %ids = texpr.data "ids" : !texpr.tensor<4 | i32>
  %n2 = texpr.range : !texpr.tensor<6>
  %n3 = texpr.apply = eq(%ids, %n2) logic "." : !texpr.tensor<...b0, 4 | 6>
  %n4 = texpr.apply add= mul(%w, %n3) logic "@" : !texpr.tensor<...b1, 4 | ...o2, 8>
  %n5 = texpr.apply = mul(%n4, %n4) logic "." : !texpr.tensor<...b3, 4 | ...o4, 8>
  %loss = texpr.apply add= %n5 logic "...|... => 0" : !texpr.tensor<?d0>
  %loss_grad = texpr.grad %loss : !texpr.tensor<?d0>
  %n7 = texpr.constant 1.0 : !texpr.tensor<...o5>
  texpr.comment "loss gradient update"
  texpr.forward %loss
  texpr.zero_grads %loss
  texpr.assign %loss_grad = %n7 logic "."
  texpr.backprop %loss
}

// An embedding with its gradient, which is computed where it is added.
// CHECK-LABEL: loops.func @embedding
// CHECK:         loops.nest "gather" (b = 4, o = 8) {
// CHECK-NEXT:      %1 = loops.load %ids[b]
// CHECK-NEXT:      %2, %3 = loops.position %1 below 6
// CHECK-NEXT:      %4 = loops.load %embedding_w[%2, o]
// CHECK-NEXT:      %5 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %6 = arith.select %3, %4, %5 : f32
// CHECK-NEXT:      loops.store %6, %gather[b, o]
// CHECK-NEXT:    }
// CHECK:         loops.nest "loss .. loss.grad" () {
// CHECK-NEXT:      %7 = loops.reduce add (b = 4, o = 8) : f32 {
// CHECK-NEXT:        %8 = loops.load %gather[b, o]
// CHECK-NEXT:        %9 = arith.mulf %8, %8 : f32
// CHECK-NEXT:        loops.yield %9
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %7, %loss[0]
// CHECK-NEXT:      %10 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %10, %loss_grad[0]
// CHECK-NEXT:    }
// CHECK:         loops.nest "embedding.w.grad" (o = 6, i = 8) {
// CHECK-NEXT:      %11 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %11, %embedding_w_grad[o, i]
// CHECK-NEXT:    }
// CHECK:         loops.nest "embedding.w.grad scatter" (b = 4, i = 8) {
// CHECK-NEXT:      %12 = loops.load %ids[b]
// CHECK-NEXT:      %13, %14 = loops.position %12 below 6
// CHECK-NEXT:      %15 = loops.load %gather[b, i]
// CHECK-NEXT:      %16 = loops.load %gather[b, i]
// CHECK-NEXT:      %17 = arith.addf %15, %16 : f32
// CHECK-NEXT:      %18 = loops.load %embedding_w_grad[%13, i]
// CHECK-NEXT:      %19 = arith.addf %18, %17 : f32
// CHECK-NEXT:      %20 = arith.select %14, %19, %18 : f32
// CHECK-NEXT:      loops.store %20, %embedding_w_grad[%13, i]
// CHECK-NEXT:    }
texpr.routine @embedding {
  %ids = texpr.data "ids" : !texpr.tensor<4 | i32>
  %n1 = texpr.range : !texpr.tensor<6>
  %embedding_w = texpr.param "embedding.w" : !texpr.tensor<8 -> 6>
  %gather = texpr.apply add= where(eq(%ids, %n1), %embedding_w, 0.0) logic "... |; v; ..dim.. -> v => ... | ..dim.." dims <v = 6> : !texpr.tensor<4 | 8>
  %n4 = texpr.apply = mul(%gather, %gather) logic "." : !texpr.tensor<...b0, 4 | ...o1, 8>
  %loss = texpr.apply add= %n4 logic "...|... => 0" : !texpr.tensor<?d0>
  %loss_grad = texpr.grad %loss : !texpr.tensor<?d0>
  %n6 = texpr.constant 1.0 : !texpr.tensor<...o2>
  texpr.comment "loss gradient update"
  texpr.forward %loss
  texpr.zero_grads %loss
  texpr.assign %loss_grad = %n6 logic "."
  texpr.backprop %loss
}

// Cross entropy of ids: the gradient compares at every point, and searches nowhere.
// CHECK-LABEL: loops.func @cross_entropy
// CHECK:         loops.nest "stop_gradient" (b = 4) {
// CHECK-NEXT:      %1 = loops.reduce max (o = 6) : f32 {
// CHECK-NEXT:        %2 = loops.load %x[b, o]
// CHECK-NEXT:        loops.yield %2
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %1, %stop_gradient[b]
// CHECK-NEXT:    }
// CHECK:         loops.nest "exp" (b = 4, o = 6) {
// CHECK-NEXT:      %3 = loops.load %x[b, o]
// CHECK-NEXT:      %4 = loops.load %stop_gradient[b]
// CHECK-NEXT:      %5 = arith.subf %3, %4 : f32
// CHECK-NEXT:      %6 = math.exp %5 : f32
// CHECK-NEXT:      loops.store %6, %exp[b, o]
// CHECK-NEXT:    }
// CHECK:         loops.nest "n7 .. n7_grad" (b = 4) {
// CHECK-NEXT:      %7 = loops.reduce add (o = 6) : f32 {
// CHECK-NEXT:        %8 = loops.load %exp[b, o]
// CHECK-NEXT:        loops.yield %8
// CHECK-NEXT:      }
// CHECK-NEXT:      %9 = math.log %7 : f32
// CHECK-NEXT:      %10 = loops.load %ids[b]
// CHECK-NEXT:      %11, %12 = loops.position %10 below 6
// CHECK-NEXT:      %13 = loops.load %x[b, %11]
// CHECK-NEXT:      %14 = loops.load %stop_gradient[b]
// CHECK-NEXT:      %15 = arith.subf %13, %14 : f32
// CHECK-NEXT:      %16 = arith.subf %15, %9 : f32
// CHECK-NEXT:      %17 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %18 = arith.select %12, %16, %17 : f32
// CHECK-NEXT:      loops.store %18, %gather[b]
// CHECK-NEXT:      %19 = loops.load %ids[b]
// CHECK-NEXT:      %20, %21 = loops.position %19 below 6
// CHECK-NEXT:      %22 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:      %23 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %24 = arith.select %21, %22, %23 : f32
// CHECK-NEXT:      %25 = arith.divf %24, %7 : f32
// CHECK-NEXT:      loops.store %25, %n7_grad[b]
// CHECK-NEXT:    }
// CHECK:         loops.nest "loss .. loss.grad" () {
// CHECK-NEXT:      %26 = loops.reduce add (b = 4) : f32 {
// CHECK-NEXT:        %27 = loops.load %gather[b]
// CHECK-NEXT:        loops.yield %27
// CHECK-NEXT:      }
// CHECK-NEXT:      %28 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:      %29 = arith.mulf %26, %28 : f32
// CHECK-NEXT:      %30 = arith.negf %29 : f32
// CHECK-NEXT:      loops.store %30, %loss[0]
// CHECK-NEXT:      %31 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %31, %loss_grad[0]
// CHECK-NEXT:    }
// CHECK:         loops.nest "x.grad" (b = 4, o = 6) {
// CHECK-NEXT:      %32 = loops.load %ids[b]
// CHECK-NEXT:      %33 = loops.index o : i32
// CHECK-NEXT:      %34 = arith.constant -2.500000e-01 : f32
// CHECK-NEXT:      %35 = arith.cmpi eq, %32, %33 : i32
// CHECK-NEXT:      %36 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %37 = arith.select %35, %34, %36 : f32
// CHECK-NEXT:      %38 = loops.load %n7_grad[b]
// CHECK-NEXT:      %39 = loops.load %exp[b, o]
// CHECK-NEXT:      %40 = math.fma %38, %39, %37 : f32
// CHECK-NEXT:      loops.store %40, %x_grad[b, o]
// CHECK-NEXT:    }
texpr.routine @cross_entropy {
  %ids = texpr.data "ids" : !texpr.tensor<4 | i32>
  %n1 = texpr.range : !texpr.tensor<6>
  %x = texpr.param "x" : !texpr.tensor<4 | 6>
  %n3 = texpr.apply max= %x logic "... | ... -> ..classes.. => ... | ... -> " : !texpr.tensor<4 | >
  %stop_gradient = texpr.apply = %n3 logic "." stop : !texpr.tensor<4 | ...o0>
  %n5 = texpr.apply = sub(%x, %stop_gradient) logic "." : !texpr.tensor<4 | 6>
  %exp = texpr.apply = exp(%n5) logic "." : !texpr.tensor<4 | ...o1, 6>
  %n7 = texpr.apply add= %exp logic "... | ... -> ..classes.. => ... | ... -> " : !texpr.tensor<4 | >
  %log = texpr.apply = log(%n7) logic "." : !texpr.tensor<4 | ...o2>
  %log_softmax = texpr.apply = sub(%n5, %log) logic "." : !texpr.tensor<4 | 6>
  %gather = texpr.apply add= where(eq(%ids, %n1), %log_softmax, 0.0) logic "... |; c; ... | c => ... |" dims <c = 6> : !texpr.tensor<4 | >
  %n11 = texpr.apply add= %gather logic "..b.. | ..i.. -> ..o.. => 0" dims <b = 4, i = 1, o = 1> : !texpr.tensor<?d0>
  %n12 = texpr.size 4 : !texpr.tensor<>
  %n13 = texpr.size 1 : !texpr.tensor<>
  %n14 = texpr.apply = mul(%n12, %n13) logic "." : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %n15 = texpr.size 1 : !texpr.tensor<>
  %n16 = texpr.apply = mul(%n14, %n15) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %n17 = texpr.apply = div(%n11, %n16) logic "." : !texpr.tensor<...b9 | ...i10 -> ...o11, ?d1>
  %loss = texpr.apply = neg(%n17) logic "." : !texpr.tensor<...b12 | ...i13 -> ...o14, ?d2>
  %loss_grad = texpr.grad %loss : !texpr.tensor<...b12 | ...i13 -> ...o14, ?d2>
  %n19 = texpr.constant 1.0 : !texpr.tensor<...b15 | ...i16 -> ...o17>
  texpr.comment "loss gradient update"
  texpr.forward %loss
  texpr.zero_grads %loss
  texpr.assign %loss_grad = %n19 logic "."
  texpr.backprop %loss
}

// A scatter with its gradient, of ids that are clamped.
// CHECK-LABEL: loops.func @scatter
// CHECK:         loops.nest "n6" (b = 4) {
// CHECK-NEXT:      %1 = loops.load %ids[b]
// CHECK-NEXT:      %2 = arith.sitofp %1 : i32 to f32
// CHECK-NEXT:      %3 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %4 = arith.maximumf %2, %3 : f32
// CHECK-NEXT:      %5 = arith.constant 5.000000e+00 : f32
// CHECK-NEXT:      %6 = arith.minimumf %4, %5 : f32
// CHECK-NEXT:      loops.store %6, %n6[b]
// CHECK-NEXT:    }
// CHECK:         loops.nest "s" (v = 6, d = 8) {
// CHECK-NEXT:      %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %7, %s[v, d]
// CHECK-NEXT:    }
// CHECK:         loops.nest "s scatter" (b = 4, d = 8) {
// CHECK-NEXT:      %8 = loops.load %n6[b]
// CHECK-NEXT:      %9, %10 = loops.position %8 below 6
// CHECK-NEXT:      %11 = loops.load %v[b, d]
// CHECK-NEXT:      %12 = loops.load %s[%9, d]
// CHECK-NEXT:      %13 = arith.addf %12, %11 : f32
// CHECK-NEXT:      %14 = arith.select %10, %13, %12 : f32
// CHECK-NEXT:      loops.store %14, %s[%9, d]
// CHECK-NEXT:    }
// CHECK:         loops.nest "loss .. loss.grad" () {
// CHECK-NEXT:      %15 = loops.reduce add (o = 6, o1 = 8) : f32 {
// CHECK-NEXT:        %16 = loops.load %s[o, o1]
// CHECK-NEXT:        %17 = arith.mulf %16, %16 : f32
// CHECK-NEXT:        loops.yield %17
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %15, %loss[0]
// CHECK-NEXT:      %18 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      loops.store %18, %loss_grad[0]
// CHECK-NEXT:    }
// CHECK:         loops.nest "v.grad" (b = 4, o = 8) {
// CHECK-NEXT:      %19 = loops.load %ids[b]
// CHECK-NEXT:      %20 = arith.sitofp %19 : i32 to f32
// CHECK-NEXT:      %21 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %22 = arith.maximumf %20, %21 : f32
// CHECK-NEXT:      %23 = arith.constant 5.000000e+00 : f32
// CHECK-NEXT:      %24 = arith.minimumf %22, %23 : f32
// CHECK-NEXT:      %25, %26 = loops.position %24 below 6
// CHECK-NEXT:      %27 = loops.load %s[%25, o]
// CHECK-NEXT:      %28 = loops.load %s[%25, o]
// CHECK-NEXT:      %29 = arith.addf %27, %28 : f32
// CHECK-NEXT:      %30 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %31 = arith.select %26, %29, %30 : f32
// CHECK-NEXT:      loops.store %31, %v_grad[b, o]
// CHECK-NEXT:    }
texpr.routine @scatter {
  %ids = texpr.data "ids" : !texpr.tensor<4 | i32>
  %n1 = texpr.constant 0.0 : !texpr.tensor<...b0 | >
  %n2 = texpr.apply = max(%ids, %n1) logic "." : !texpr.tensor<4 | >
  %n3 = texpr.size 6 : !texpr.tensor<>
  %n4 = texpr.constant 1.0 : !texpr.tensor<...b1 | >
  %n5 = texpr.apply = sub(%n3, %n4) logic "." : !texpr.tensor<...b2 | >
  %n6 = texpr.apply = min(%n2, %n5) logic "." : !texpr.tensor<4 | >
  %n7 = texpr.range : !texpr.tensor<6>
  %v = texpr.param "v" : !texpr.tensor<4 | 8>
  %s = texpr.apply add= where(eq(%n6, %n7), %v, 0.0) logic "b |; v; b | d => v d" dims <v = 6> : !texpr.tensor<6, 8>
  %n10 = texpr.apply = mul(%s, %s) logic "." : !texpr.tensor<...o3, 6, 8>
  %loss = texpr.apply add= %n10 logic "... => 0" : !texpr.tensor<?d0>
  %loss_grad = texpr.grad %loss : !texpr.tensor<?d0>
  %n12 = texpr.constant 1.0 : !texpr.tensor<...o4>
  texpr.comment "loss gradient update"
  texpr.forward %loss
  texpr.zero_grads %loss
  texpr.assign %loss_grad = %n12 logic "."
  texpr.backprop %loss
}
