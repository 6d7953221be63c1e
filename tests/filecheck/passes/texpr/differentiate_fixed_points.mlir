// RUN: ocannl-opt %s | filecheck %s --check-prefix=ROUND
// RUN: ocannl-opt %s -p differentiate | filecheck %s

// ROUND: %x = texpr.scan t = 50 within 1.0e-06 carry (%c = %x0 : !texpr.tensor<3, f32>) with (%b = %a) {

// The limit is that of the program, and for the adjoint a share of the cotangent that it begins with.
// CHECK:      %[[LIMIT:.*]] = texpr.constant 1.0e-06 : !texpr.tensor<f32>
// CHECK:      %x, %{{.*}} = texpr.scan t = 50 while %going carry (%c = %x0 : !texpr.tensor<3, f32>, %going = %{{.*}} : !texpr.tensor<f32>) with (%b = %a, %[[MOST:.*]] = %[[LIMIT]]) {
// CHECK-NEXT:   %next = texpr.apply [i] = sin(mul(%c[i], %b[i])) over (i = 3)
// CHECK-NEXT:   %[[STEP:.*]] = texpr.apply [] max= where(le(0, abs(sub(%next[o], %c[o]))), abs(sub(%next[o], %c[o])), 0) over (o = 3)
// CHECK-NEXT:   %[[GOING:.*]] = texpr.apply [] = lt(%[[MOST]][], %[[STEP]][]) over ()
// CHECK-NEXT:   texpr.yield carry (%next, %[[GOING]])
// CHECK:      %[[LARGEST:.*]] = texpr.apply [] max= where(le(0, abs(%ct[o])), abs(%ct[o]), 0) over (o = 3)
// CHECK-NEXT: %[[SHARE:.*]] = texpr.apply [] = mul(%[[LARGEST]][], 1.0e-06) over ()
// CHECK:      %[[SOLVED:.*]], %{{.*}} = texpr.scan t = 50 while %{{.*}} carry (%[[U:.*]] = %ct : {{.*}}) with (%at = %x, %[[B:.*]] = %a, %cotangent = %ct, %{{.*}} = %[[SHARE]]) {
// CHECK:        %at_grad = texpr.apply [i] = mul(%[[U]][i], mul(%[[B]][i], cos(mul(%at[i], %[[B]][i])))) over (i = 3)
// CHECK:        %{{.*}} = texpr.apply [o] = add(%cotangent[o], %at_grad[o]) over (o = 3)
// CHECK:      %g = texpr.apply [i] = mul(%[[SOLVED]][i], mul(%x[i], cos(mul(%x[i], %a[i])))) over (i = 3)
// CHECK-NEXT: %none = texpr.constant 0.0 : !texpr.tensor<3, f32>
texpr.routine @r {
  %x0 = texpr.data "x0" : !texpr.tensor<3, f32>
  %a = texpr.data "a" : !texpr.tensor<3, f32>
  %ct = texpr.data "ct" : !texpr.tensor<3, f32>
  %x = texpr.scan t = 50 within 1.0e-06 carry (%c = %x0 : !texpr.tensor<3, f32>) with (%b = %a) {
    %next = texpr.apply [i] = sin(mul(%c[i], %b[i])) over (i = 3) : !texpr.tensor<3, f32>
    texpr.yield carry (%next)
  } : !texpr.tensor<3, f32>
  %g = texpr.vjp %x wrt %a from %ct : !texpr.tensor<3, f32>
  %none = texpr.vjp %x wrt %x0 from %ct : !texpr.tensor<3, f32>
  texpr.forward %g
}
