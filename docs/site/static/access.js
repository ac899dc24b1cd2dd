/* SPDX-License-Identifier: GPL-2.0-or-later
 * What the theme leaves out for who has no mouse, or no screen. It runs at the end of a page. */
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
for (const block of document.querySelectorAll(".highlight pre")) block.tabIndex = 0; // it may scroll
