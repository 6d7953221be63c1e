// RUN: ocannl-opt %s -p differentiate | filecheck %s
// RUN: ocannl-opt %s -p differentiate | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s -p differentiate,distribute-scans | filecheck %s

// What is saved of iterations that did not run is 0, at which a slope may be infinite: nothing comes of them.
// CHECK:       %[[G:.*]], %[[KEPT:.*]] = texpr.scan t = 6 reverse where %[[RAN:.*]] carry (%[[C:.*]] = %last_grad
// CHECK:         %[[NEW:.*]] = texpr.apply [o] = div(%[[C]][o], %{{.*}}[o])
// CHECK-NEXT:    %[[NEXT:.*]] = texpr.apply [o] = where(%[[RAN]][], %[[NEW]][o], %[[C]][o])
// CHECK-NEXT:    texpr.yield carry (%[[NEXT]]) each (%[[NEW]] at batch 0)
// Nor does anything by the adjoint of that.
// CHECK:       texpr.scan t = 6 where %[[RAN2:.*]] carry (%[[C2:.*]] = %g_grad
// CHECK:         %[[SLOPE:.*]] = texpr.apply [o] = neg(
// CHECK:         %[[NEXT2:.*]] = texpr.apply [o] = where(%[[RAN2]][], %{{.*}}[o], %[[C2]][o])
// CHECK-NEXT:    %[[EACH:.*]] = texpr.apply [o] = where(%[[RAN2]][], %[[SLOPE]][o], 0.0)
// CHECK-NEXT:    texpr.yield carry (%[[NEXT2]]) each (%[[EACH]] at batch 0)
texpr.routine @loop {
  %a = texpr.param "a" : !texpr.tensor<3, f32>
  %n = texpr.constant 0.0 : !texpr.tensor<f32>
  %one = texpr.constant 1.0 : !texpr.tensor<f32>
  %last, %going, %count = texpr.scan t = 6 while %go carry (%x = %a : !texpr.tensor<3, f32>, %go = %one : !texpr.tensor<f32>, %k = %n : !texpr.tensor<f32>) {
    %next = texpr.apply [o] = log(%x[o]) over (o = 3) : !texpr.tensor<3, f32>
    %more = texpr.apply [] = add(%k[], 1.0) over () : !texpr.tensor<f32>
    %is_less = texpr.apply [] = lt(%more[], 2.0) over () : !texpr.tensor<f32>
    texpr.yield carry (%next, %is_less, %more)
  } : !texpr.tensor<3, f32>, !texpr.tensor<f32>, !texpr.tensor<f32>
  %y = texpr.apply [] add= %last[o] over (o = 3) : !texpr.tensor<f32>
  %g = texpr.vjp %y wrt %a : !texpr.tensor<3, f32>
  %s = texpr.apply [] add= %g[o] over (o = 3) : !texpr.tensor<f32>
  %gg = texpr.vjp %s wrt %a : !texpr.tensor<3, f32>
  texpr.forward %gg
}
